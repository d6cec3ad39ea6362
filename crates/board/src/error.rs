//! What can go wrong, and what a client receives.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use octant_events::EventsError;

/// Why a board could not be started, or a request failed, in one sentence.
#[derive(Debug, thiserror::Error)]
pub enum BoardError {
    /// A file of a run.
    #[error(transparent)]
    Events(#[from] EventsError),
    /// The network.
    #[error(transparent)]
    Address(#[from] octant_web::AddressError),
    /// A folder that is not there.
    #[error("{0} is not a folder; name a run directory or a folder of runs")]
    NoFolder(String),
    /// A request for something that is not there.
    #[error("there is no such {0}")]
    Missing(&'static str),
    /// A request that makes no sense.
    #[error("{0}")]
    Request(&'static str),
    /// A value that is too large to be sent.
    #[error("this is larger than {0} MB and is not sent")]
    TooLarge(u64),
    /// A file beside the data, such as the one that holds the port for TensorBoard.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
}

impl IntoResponse for BoardError {
    fn into_response(self) -> Response {
        let status = match &self {
            BoardError::Missing(_) => StatusCode::NOT_FOUND,
            BoardError::Request(_) => StatusCode::BAD_REQUEST,
            BoardError::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            BoardError::Events(_) => StatusCode::CONFLICT,
            BoardError::Address(_) | BoardError::NoFolder(_) | BoardError::Write { .. } => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
        };
        // Paths of this machine are not for the page.
        let text = match &self {
            BoardError::Events(_) => "this value cannot be read: its file changed or is damaged".to_string(),
            other => other.to_string(),
        };
        (status, text).into_response()
    }
}
