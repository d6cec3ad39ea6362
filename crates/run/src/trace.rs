//! What devices did on a line of time, as a file for a viewer.

use crate::Result;
use crate::error::write;
use octant_runtime::Timeline;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;

/// A trace that was written, as an event: what share of the time the device worked, and waited for the host.
pub fn trace_json(path: &Path, timeline: &Timeline) -> Value {
    let (busy, waiting) = timeline.occupation().map(|share| (share.busy, share.waiting)).unzip();
    json!({ "event": "trace", "path": path, "busy_share": busy, "waiting_share": waiting })
}

/// Writes a trace that Perfetto and Chrome's `chrome://tracing` open.
pub fn write_trace(path: &Path, timeline: &Timeline) -> Result<()> {
    let lanes: BTreeSet<(&str, &str)> =
        timeline.spans.iter().map(|span| (span.plane.as_str(), span.lane.as_str())).collect();
    let planes: BTreeSet<&str> = lanes.iter().map(|(plane, _)| *plane).collect();
    let plane_number = |plane: &str| planes.iter().position(|known| *known == plane);
    let lane_number = |lane: (&str, &str)| lanes.iter().position(|known| *known == lane);
    let named = |what: &str, process: Option<usize>, thread: Option<usize>, name: &str| json!({ "ph": "M", "name": what, "pid": process, "tid": thread, "args": { "name": name } });
    let mut events: Vec<Value> =
        planes.iter().map(|plane| named("process_name", plane_number(plane), None, plane)).collect();
    events.extend(
        lanes.iter().map(|&(plane, lane)| named("thread_name", plane_number(plane), lane_number((plane, lane)), lane)),
    );
    events.extend(timeline.spans.iter().map(|span| {
        json!({
            "ph": "X", "name": span.name, "pid": plane_number(&span.plane), "tid": lane_number((&span.plane, &span.lane)),
            "ts": span.start.as_secs_f64() * 1e6, "dur": span.length.as_secs_f64() * 1e6,
        })
    }));
    write(path, json!({ "traceEvents": events, "displayTimeUnit": "ms" }).to_string())
}
