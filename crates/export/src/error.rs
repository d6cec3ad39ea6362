//! Why a network cannot be exported.

/// Why a network cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The format has no counterpart of an operation.
    #[error("{format} has no counterpart of {operation} as {layer} uses it: {reason}")]
    Unsupported {
        /// The format.
        format: &'static str,
        /// The primitive.
        operation: String,
        /// The path of the layer.
        layer: String,
        /// What is missing.
        reason: String,
    },
    /// The network cannot be traced.
    #[error(transparent)]
    Trace(#[from] octant_graph::GraphError),
    /// The network has no form in StableHLO.
    #[error(transparent)]
    Lower(#[from] octant_stablehlo::LowerError),
    /// The file of weights beside a model cannot be written.
    #[error(transparent)]
    Archive(#[from] octant_archive::ArchiveError),
    /// A value is missing or does not fit.
    #[error("{0}")]
    Refused(String),
}
