//! What event files hold, by tag: numbers as columns, everything else as where it lies.

use crate::wire::{Content, Fields, Source, Span, bytes};
use std::collections::HashMap;

/// What the values of a tag are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Numbers.
    Scalar,
    /// Encoded images.
    Image,
    /// Encoded sound.
    Audio,
    /// Distributions.
    Histogram,
    /// Markdown.
    Text,
    /// The network's graph.
    Graph,
    /// Tensors of any other plugin, and values that are nothing but metadata.
    Tensor,
}

/// Where a value lies in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Location {
    /// The content of the record.
    pub record: Span,
    /// The value in it.
    pub value: Span,
}

/// The values of one tag in one file, in the order in which they were written.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The tag.
    pub tag: String,
    /// What the values are.
    pub kind: Kind,
    /// The plugin that shows them.
    pub plugin: String,
    /// The `SummaryMetadata` that the first of them came with.
    pub metadata: Vec<u8>,
    /// The step of every value.
    pub steps: Vec<i64>,
    /// When every value was written, in seconds since 1970.
    pub times: Vec<f64>,
    /// The numbers, where they are numbers.
    pub numbers: Vec<f32>,
    /// Where the values lie, where they are not numbers.
    pub locations: Vec<Location>,
}

/// The tag under which the network's graph is listed.
pub const GRAPH_TAG: &str = "__run_graph__";

const LONGEST_TAG: u64 = 1 << 16;
const LONGEST_METADATA: u64 = 1 << 24;

/// All series of a file.
#[derive(Debug, Default)]
pub(crate) struct SeriesTable {
    pub series: Vec<Series>,
    positions: HashMap<Box<[u8]>, usize>,
    /// When the first record that says something was written; version records may be much older or newer.
    pub began: Option<f64>,
}

/// Why a record that has the right checksum is left out.
pub(crate) const NOT_AN_EVENT: &str = "a record is not an event";
pub(crate) const OTHER_KIND: &str = "a value is of another kind than those of its tag before";

#[derive(Default)]
struct Fresh {
    kind: Option<Kind>,
    number: f32,
    plugin: Option<String>,
    metadata: Option<Span>,
}

impl SeriesTable {
    /// Adds what a record says.
    pub fn add(&mut self, source: &mut impl Source, record: Span) -> Result<(), &'static str> {
        let (mut time, mut step, mut summary, mut graph, mut is_version) = (0.0, 0, None, None, false);
        let mut fields = Fields::of(record);
        while let Some(field) = fields.next(source) {
            match field.ok_or(NOT_AN_EVENT)? {
                (1, Content::Fixed64(bits)) => time = f64::from_bits(bits),
                (2, Content::Varint(value)) => step = value as i64,
                (3, Content::Bytes(_)) => is_version = true,
                (4, Content::Bytes(span)) => graph = Some(span),
                (5, Content::Bytes(span)) => summary = Some(span),
                _ => {}
            }
        }
        if !is_version {
            self.began.get_or_insert(time);
        }
        if let Some(graph) = graph {
            let fresh = Fresh { kind: Some(Kind::Graph), plugin: Some("graphs".into()), ..Fresh::default() };
            self.push(source, GRAPH_TAG.as_bytes(), fresh, (step, time), Location { record, value: graph })?;
        }
        let Some(summary) = summary else { return Ok(()) };
        let (mut values, mut result) = (Fields::of(summary), Ok(()));
        while let Some(field) = values.next(source) {
            let (1, Content::Bytes(value)) = field.ok_or(NOT_AN_EVENT)? else { continue };
            // One odd value does not cost the others of its record.
            result = result.and(self.value(source, Location { record, value }, (step, time)));
        }
        result
    }

    fn value(&mut self, source: &mut impl Source, position: Location, when: (i64, f64)) -> Result<(), &'static str> {
        let (mut tag, mut fresh, mut tensor) = (Span::default(), Fresh::default(), None);
        let mut fields = Fields::of(position.value);
        while let Some(field) = fields.next(source) {
            match field.ok_or(NOT_AN_EVENT)? {
                (1, Content::Bytes(span)) => tag = span,
                (2, Content::Fixed32(bits)) => (fresh.kind, fresh.number) = (Some(Kind::Scalar), f32::from_bits(bits)),
                (4, Content::Bytes(_)) => fresh.kind = Some(Kind::Image),
                (5, Content::Bytes(_)) => fresh.kind = Some(Kind::Histogram),
                (6, Content::Bytes(_)) => fresh.kind = Some(Kind::Audio),
                (8, Content::Bytes(span)) => tensor = Some(span),
                (9, Content::Bytes(span)) => fresh.metadata = Some(span),
                _ => {}
            }
        }
        if let Some(span) = fresh.metadata {
            fresh.plugin = Some(plugin_name(source, span).ok_or(NOT_AN_EVENT)?);
        }
        let tag = bytes(source, tag, LONGEST_TAG).ok_or(NOT_AN_EVENT)?;
        if fresh.kind == Some(Kind::Scalar)
            && let Some(&known) = self.positions.get(tag)
            && self.series[known].kind == Kind::Scalar
        {
            // Most values of most files: nothing is allocated.
            self.series[known].push(when, fresh.number, None);
            return Ok(());
        }
        let tag = tag.to_vec();
        if let Some(tensor) = tensor {
            let known = self.positions.get(&tag[..]).map(|&position| self.series[position].kind);
            fresh.kind = Some(known.unwrap_or_else(|| kind_of(fresh.plugin.as_deref().unwrap_or_default())));
            if fresh.kind == Some(Kind::Scalar) {
                let content = bytes(source, tensor, LONGEST_TAG).ok_or(NOT_AN_EVENT)?;
                let number = crate::TensorValue::decode(content).and_then(|tensor| tensor.numbers.first().copied());
                fresh.number = number.ok_or(OTHER_KIND)? as f32;
            }
        }
        self.push(source, &tag, fresh, when, position)
    }

    fn push(
        &mut self,
        source: &mut impl Source,
        tag: &[u8],
        fresh: Fresh,
        when: (i64, f64),
        position: Location,
    ) -> Result<(), &'static str> {
        let kind = fresh.kind.unwrap_or(Kind::Tensor);
        let index = match self.positions.get(tag) {
            Some(&index) => index,
            None => {
                let metadata = fresh.metadata.map(|span| bytes(source, span, LONGEST_METADATA).map(<[u8]>::to_vec));
                let plugin = fresh.plugin.filter(|plugin| !plugin.is_empty());
                self.positions.insert(tag.into(), self.series.len());
                self.series.push(Series {
                    tag: String::from_utf8_lossy(tag).into_owned(),
                    kind,
                    plugin: plugin.unwrap_or_else(|| default_plugin(kind).into()),
                    metadata: metadata.unwrap_or_default().unwrap_or_default(),
                    steps: Vec::new(),
                    times: Vec::new(),
                    numbers: Vec::new(),
                    locations: Vec::new(),
                });
                self.series.len() - 1
            }
        };
        let series = &mut self.series[index];
        if series.kind != kind {
            return Err(OTHER_KIND);
        }
        series.push(when, fresh.number, (kind != Kind::Scalar).then_some(position));
        Ok(())
    }
}

impl Series {
    #[inline]
    fn push(&mut self, (step, time): (i64, f64), number: f32, position: Option<Location>) {
        self.steps.push(step);
        self.times.push(time);
        match position {
            Some(position) => self.locations.push(position),
            None => self.numbers.push(number),
        }
    }

    /// How many values it has.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// True when it has none.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

fn kind_of(plugin: &str) -> Kind {
    match plugin {
        "scalars" => Kind::Scalar,
        "images" => Kind::Image,
        "audio" => Kind::Audio,
        "histograms" => Kind::Histogram,
        "text" => Kind::Text,
        _ => Kind::Tensor,
    }
}

fn default_plugin(kind: Kind) -> &'static str {
    match kind {
        Kind::Scalar => "scalars",
        Kind::Image => "images",
        Kind::Audio => "audio",
        Kind::Histogram => "histograms",
        Kind::Text => "text",
        Kind::Graph => "graphs",
        Kind::Tensor => "",
    }
}

/// The plugin in a `SummaryMetadata`.
fn plugin_name(source: &mut impl Source, metadata: Span) -> Option<String> {
    let mut fields = Fields::of(metadata);
    while let Some(field) = fields.next(source) {
        let (1, Content::Bytes(data)) = field? else { continue };
        let mut inner = Fields::of(data);
        while let Some(field) = inner.next(source) {
            if let (1, Content::Bytes(name)) = field? {
                return bytes(source, name, LONGEST_TAG).map(|name| String::from_utf8_lossy(name).into_owned());
            }
        }
    }
    Some(String::new())
}
