//! The messages of `tensorboard/data/proto/data_provider.proto`. Messages of the same shape are one type here, and
//! messages that are passed on unread are bytes: neither makes a difference on the wire.

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub struct ExperimentRequest {
    #[prost(string, tag = "1")]
    pub experiment_id: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct GetExperimentResponse {
    #[prost(string, tag = "1")]
    pub data_location: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Name {
    #[prost(string, tag = "1")]
    pub name: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct ListPluginsResponse {
    #[prost(message, repeated, tag = "1")]
    pub plugins: Vec<Name>,
}

#[derive(Clone, PartialEq, Message)]
pub struct RunName {
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(double, tag = "3")]
    pub start_time: f64,
}

#[derive(Clone, PartialEq, Message)]
pub struct ListRunsResponse {
    #[prost(message, repeated, tag = "1")]
    pub runs: Vec<RunName>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Names {
    #[prost(string, repeated, tag = "1")]
    pub names: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct RunTagFilter {
    #[prost(message, optional, tag = "1")]
    pub runs: Option<Names>,
    #[prost(message, optional, tag = "2")]
    pub tags: Option<Names>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Downsample {
    #[prost(int64, tag = "1")]
    pub num_points: i64,
}

/// All `List…Request` and `Read…Request`.
#[derive(Clone, PartialEq, Message)]
pub struct SeriesRequest {
    #[prost(string, tag = "1")]
    pub experiment_id: String,
    #[prost(message, optional, tag = "2")]
    pub plugin_filter: Option<Name>,
    #[prost(message, optional, tag = "3")]
    pub run_tag_filter: Option<RunTagFilter>,
    #[prost(message, optional, tag = "4")]
    pub downsample: Option<Downsample>,
}

/// `ScalarMetadata` and `TensorMetadata`.
#[derive(Clone, PartialEq, Message)]
pub struct SeriesMetadata {
    #[prost(int64, tag = "1")]
    pub max_step: i64,
    #[prost(double, tag = "2")]
    pub max_wall_time: f64,
    /// A `SummaryMetadata`.
    #[prost(bytes = "vec", tag = "3")]
    pub summary_metadata: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub struct BlobMetadata {
    #[prost(int64, tag = "1")]
    pub max_step: i64,
    #[prost(double, tag = "2")]
    pub max_wall_time: f64,
    #[prost(int64, tag = "3")]
    pub max_length: i64,
    /// A `SummaryMetadata`.
    #[prost(bytes = "vec", tag = "4")]
    pub summary_metadata: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ScalarData {
    #[prost(int64, repeated, tag = "1")]
    pub step: Vec<i64>,
    #[prost(double, repeated, tag = "2")]
    pub wall_time: Vec<f64>,
    #[prost(float, repeated, tag = "3")]
    pub value: Vec<f32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TensorData {
    #[prost(int64, repeated, tag = "1")]
    pub step: Vec<i64>,
    #[prost(double, repeated, tag = "2")]
    pub wall_time: Vec<f64>,
    /// `TensorProto`s.
    #[prost(bytes = "vec", repeated, tag = "3")]
    pub value: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub struct BlobReferences {
    #[prost(message, repeated, tag = "1")]
    pub blob_refs: Vec<Name>,
}

#[derive(Clone, PartialEq, Message)]
pub struct BlobData {
    #[prost(int64, repeated, tag = "1")]
    pub step: Vec<i64>,
    #[prost(double, repeated, tag = "2")]
    pub wall_time: Vec<f64>,
    #[prost(message, repeated, tag = "3")]
    pub values: Vec<BlobReferences>,
}

/// A tag with its metadata or data, by run: all `List…Response` and `Read…Response`.
macro_rules! by_run {
    ($response:ident, $run:ident, $tag:ident, $content:ty) => {
        #[derive(Clone, PartialEq, Message)]
        pub struct $tag {
            #[prost(string, tag = "1")]
            pub tag_name: String,
            #[prost(message, optional, tag = "2")]
            pub content: Option<$content>,
        }

        #[derive(Clone, PartialEq, Message)]
        pub struct $run {
            #[prost(string, tag = "1")]
            pub run_name: String,
            #[prost(message, repeated, tag = "2")]
            pub tags: Vec<$tag>,
        }

        #[derive(Clone, PartialEq, Message)]
        pub struct $response {
            #[prost(message, repeated, tag = "1")]
            pub runs: Vec<$run>,
        }

        impl $response {
            pub fn add(&mut self, run: &str, tags: impl Iterator<Item = (String, $content)>) {
                let tags: Vec<$tag> =
                    tags.map(|(tag_name, content)| $tag { tag_name, content: Some(content) }).collect();
                if !tags.is_empty() {
                    self.runs.push($run { run_name: run.into(), tags });
                }
            }
        }
    };
}

by_run!(ListSeriesResponse, ListSeriesRun, ListSeriesTag, SeriesMetadata);
by_run!(ListBlobsResponse, ListBlobsRun, ListBlobsTag, BlobMetadata);
by_run!(ReadScalarsResponse, ReadScalarsRun, ReadScalarsTag, ScalarData);
by_run!(ReadTensorsResponse, ReadTensorsRun, ReadTensorsTag, TensorData);
by_run!(ReadBlobsResponse, ReadBlobsRun, ReadBlobsTag, BlobData);

#[derive(Clone, PartialEq, Message)]
pub struct ReadBlobRequest {
    #[prost(string, tag = "1")]
    pub blob_key: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct ReadBlobResponse {
    #[prost(bytes = "vec", tag = "1")]
    pub data: Vec<u8>,
}

/// What this server writes of `SummaryMetadata`.
#[derive(Clone, PartialEq, Message)]
pub struct SummaryMetadata {
    #[prost(message, optional, tag = "1")]
    pub plugin_data: Option<PluginData>,
    #[prost(string, tag = "2")]
    pub display_name: String,
    #[prost(string, tag = "3")]
    pub summary_description: String,
    #[prost(int32, tag = "4")]
    pub data_class: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct PluginData {
    #[prost(string, tag = "1")]
    pub plugin_name: String,
    #[prost(bytes = "vec", tag = "2")]
    pub content: Vec<u8>,
}

/// What this server writes of `TensorProto`.
#[derive(Clone, PartialEq, Message)]
pub struct TensorProto {
    #[prost(int32, tag = "1")]
    pub dtype: i32,
    #[prost(message, optional, tag = "2")]
    pub tensor_shape: Option<TensorShape>,
    #[prost(bytes = "vec", tag = "4")]
    pub tensor_content: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TensorShape {
    #[prost(message, repeated, tag = "2")]
    pub dim: Vec<Dimension>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Dimension {
    #[prost(int64, tag = "1")]
    pub size: i64,
}
