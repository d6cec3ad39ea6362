//! What event files hold, by tag: numbers as columns, everything else as where it lies.

use crate::message::{event_field, value_field};
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
    /// What a step of the graph took.
    Profile,
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
    /// Which series has a tag.
    by_tag: HashMap<Box<[u8]>, usize>,
    /// When the first record with a value was written; version records may be much older or newer.
    pub began: Option<f64>,
}

/// Why a record that has the right checksum is left out.
pub(crate) const NOT_AN_EVENT: &str = "a record is not an event";
pub(crate) const OTHER_KIND: &str = "a value is of another kind than those of its tag before";

/// A value that was read and not yet added to a series.
#[derive(Default)]
struct NewValue {
    kind: Option<Kind>,
    number: f32,
    plugin: Option<String>,
    metadata: Option<Span>,
}

impl SeriesTable {
    /// Adds a record.
    pub fn add(&mut self, source: &mut impl Source, record: Span) -> Result<(), &'static str> {
        let (mut time, mut step, mut is_version) = (0.0, 0, false);
        let (mut summary, mut graph, mut profile) = (None, None, None);
        let mut fields = Fields::of(record);
        while let Some(field) = fields.next(source) {
            match field.ok_or(NOT_AN_EVENT)? {
                (event_field::WALL_TIME, Content::Fixed64(bits)) => time = f64::from_bits(bits),
                (event_field::STEP, Content::Varint(value)) => step = value as i64,
                (event_field::FILE_VERSION, Content::Bytes(_)) => is_version = true,
                (event_field::GRAPH_DEF, Content::Bytes(span)) => graph = Some(span),
                (event_field::SUMMARY, Content::Bytes(span)) => summary = Some(span),
                (event_field::TAGGED_RUN_METADATA, Content::Bytes(span)) => profile = Some(span),
                _ => {}
            }
        }
        if !is_version {
            self.began.get_or_insert(time);
        }
        if let Some(graph) = graph {
            let new = NewValue { kind: Some(Kind::Graph), plugin: Some("graphs".into()), ..NewValue::default() };
            self.push(source, GRAPH_TAG.as_bytes(), new, (step, time), Location { record, value: graph })?;
        }
        if let Some(profile) = profile {
            let tag = name_in(source, profile).flatten().ok_or(NOT_AN_EVENT)?.into_bytes();
            let new = NewValue { kind: Some(Kind::Profile), ..NewValue::default() };
            self.push(source, &tag, new, (step, time), Location { record, value: profile })?;
        }
        let Some(summary) = summary else { return Ok(()) };
        let (mut values, mut result) = (Fields::of(summary), Ok(()));
        while let Some(field) = values.next(source) {
            let (event_field::SUMMARY_VALUE, Content::Bytes(value)) = field.ok_or(NOT_AN_EVENT)? else { continue };
            // One odd value does not cost the others of its record.
            result = result.and(self.value(source, Location { record, value }, (step, time)));
        }
        result
    }

    fn value(&mut self, source: &mut impl Source, location: Location, when: (i64, f64)) -> Result<(), &'static str> {
        let (mut tag, mut new, mut tensor) = (Span::default(), NewValue::default(), None);
        let mut fields = Fields::of(location.value);
        while let Some(field) = fields.next(source) {
            match field.ok_or(NOT_AN_EVENT)? {
                (value_field::TAG, Content::Bytes(span)) => tag = span,
                (value_field::SIMPLE_VALUE, Content::Fixed32(bits)) => {
                    (new.kind, new.number) = (Some(Kind::Scalar), f32::from_bits(bits))
                }
                (value_field::IMAGE, Content::Bytes(_)) => new.kind = Some(Kind::Image),
                (value_field::HISTOGRAM, Content::Bytes(_)) => new.kind = Some(Kind::Histogram),
                (value_field::AUDIO, Content::Bytes(_)) => new.kind = Some(Kind::Audio),
                (value_field::TENSOR, Content::Bytes(span)) => tensor = Some(span),
                (value_field::METADATA, Content::Bytes(span)) => new.metadata = Some(span),
                _ => {}
            }
        }
        if let Some(span) = new.metadata {
            new.plugin = Some(plugin_name(source, span).ok_or(NOT_AN_EVENT)?);
        }
        let tag = bytes(source, tag, LONGEST_TAG).ok_or(NOT_AN_EVENT)?;
        if new.kind == Some(Kind::Scalar)
            && let Some(&known) = self.by_tag.get(tag)
            && self.series[known].kind == Kind::Scalar
        {
            // Most values of most files: nothing is allocated.
            self.series[known].push(when, new.number, None);
            return Ok(());
        }
        let tag = tag.to_vec();
        if let Some(tensor) = tensor {
            let known = self.by_tag.get(&tag[..]).map(|&index| self.series[index].kind);
            new.kind = Some(known.unwrap_or_else(|| kind_of(new.plugin.as_deref().unwrap_or_default())));
            if new.kind == Some(Kind::Scalar) {
                let content = bytes(source, tensor, LONGEST_TAG).ok_or(NOT_AN_EVENT)?;
                let number = crate::TensorValue::decode(content).and_then(|tensor| tensor.numbers.first().copied());
                new.number = number.ok_or(OTHER_KIND)? as f32;
            }
        }
        self.push(source, &tag, new, when, location)
    }

    fn push(
        &mut self,
        source: &mut impl Source,
        tag: &[u8],
        new: NewValue,
        when: (i64, f64),
        location: Location,
    ) -> Result<(), &'static str> {
        let kind = new.kind.unwrap_or(Kind::Tensor);
        let index = match self.by_tag.get(tag) {
            Some(&index) => index,
            None => {
                let metadata = new.metadata.map(|span| bytes(source, span, LONGEST_METADATA).map(<[u8]>::to_vec));
                let plugin = new.plugin.filter(|plugin| !plugin.is_empty());
                self.by_tag.insert(tag.into(), self.series.len());
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
        series.push(when, new.number, (kind != Kind::Scalar).then_some(location));
        Ok(())
    }
}

impl Series {
    #[inline]
    fn push(&mut self, (step, time): (i64, f64), number: f32, location: Option<Location>) {
        self.steps.push(step);
        self.times.push(time);
        match location {
            Some(location) => self.locations.push(location),
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
        Kind::Profile => "graph_tagged_run_metadata",
        Kind::Tensor => "",
    }
}

/// The plugin in a `SummaryMetadata`.
fn plugin_name(source: &mut impl Source, metadata: Span) -> Option<String> {
    let mut fields = Fields::of(metadata);
    while let Some(field) = fields.next(source) {
        let (1, Content::Bytes(data)) = field? else { continue };
        let name = name_in(source, data)?;
        if name.is_some() {
            return name;
        }
    }
    Some(String::new())
}

/// The first field of a message, where it is a name; `None` when it is malformed.
fn name_in(source: &mut impl Source, message: Span) -> Option<Option<String>> {
    let mut fields = Fields::of(message);
    while let Some(field) = fields.next(source) {
        if let (1, Content::Bytes(name)) = field? {
            let name = bytes(source, name, LONGEST_TAG)?;
            return Some(Some(String::from_utf8_lossy(name).into_owned()));
        }
    }
    Some(None)
}
