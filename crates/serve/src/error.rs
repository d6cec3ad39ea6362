//! Why a server does not start, and why a request is refused.

use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use octant_predict::PredictError;
use octant_web::AddressError;
use serde_json::json;
use tonic::Code;

/// Why a server does not start, in one sentence.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// An option cannot be used as it is.
    #[error("{0}")]
    Options(String),
    /// The address cannot be listened on.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// A network cannot be loaded or compiled.
    #[error("{model}: {source}")]
    Model {
        /// The name that it was to be served under.
        model: String,
        /// What went wrong.
        source: Box<PredictError>,
    },
    /// The operating system gives no thread.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

/// The result of starting a server.
pub type Result<T, E = ServeError> = std::result::Result<T, E>;

/// Why a request is refused: the class decides the status of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    /// The request cannot be understood.
    Invalid,
    /// There is no such model, version or address.
    Missing,
    /// It is larger than what is taken.
    TooLarge,
    /// It is encoded in a form that is not read.
    Unsupported,
    /// The client did not send it in time.
    Slow,
    /// Its deadline passed before there was a result.
    Late,
    /// Too many images wait already.
    Full,
    /// The server is starting or stopping.
    Unavailable,
    /// The device or the network failed.
    Failed,
}

impl Reason {
    /// All of them, for the counters.
    pub const ALL: [Reason; 9] = [
        Reason::Invalid,
        Reason::Missing,
        Reason::TooLarge,
        Reason::Unsupported,
        Reason::Slow,
        Reason::Late,
        Reason::Full,
        Reason::Unavailable,
        Reason::Failed,
    ];

    pub fn status(self) -> StatusCode {
        match self {
            Reason::Invalid => StatusCode::BAD_REQUEST,
            Reason::Missing => StatusCode::NOT_FOUND,
            Reason::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Reason::Unsupported => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Reason::Slow => StatusCode::REQUEST_TIMEOUT,
            Reason::Late => StatusCode::GATEWAY_TIMEOUT,
            Reason::Full => StatusCode::TOO_MANY_REQUESTS,
            Reason::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Reason::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn code(self) -> Code {
        match self {
            Reason::Invalid | Reason::TooLarge | Reason::Unsupported => Code::InvalidArgument,
            Reason::Missing => Code::NotFound,
            Reason::Slow | Reason::Late => Code::DeadlineExceeded,
            Reason::Full => Code::ResourceExhausted,
            Reason::Unavailable => Code::Unavailable,
            Reason::Failed => Code::Internal,
        }
    }

    /// The word of the counters.
    pub fn word(self) -> &'static str {
        match self {
            Reason::Invalid => "invalid",
            Reason::Missing => "missing",
            Reason::TooLarge => "too_large",
            Reason::Unsupported => "unsupported",
            Reason::Slow => "slow",
            Reason::Late => "late",
            Reason::Full => "full",
            Reason::Unavailable => "unavailable",
            Reason::Failed => "failed",
        }
    }
}

/// A request that is refused, with a sentence for its sender.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    pub reason: Reason,
    pub text: String,
}

impl Refusal {
    pub fn new(reason: Reason, text: impl Into<String>) -> Refusal {
        Refusal { reason, text: text.into() }
    }

    /// A prediction that did not happen. What was given is the client's to mend; anything else is this server's.
    pub fn of(error: &PredictError) -> Refusal {
        let reason = match error {
            PredictError::Refused(_) | PredictError::Data(_) => Reason::Invalid,
            PredictError::Cancelled => Reason::Late,
            PredictError::Io { .. }
            | PredictError::Recipe(_)
            | PredictError::Model(_)
            | PredictError::Train(_)
            | PredictError::Weights(_)
            | PredictError::Device(_)
            | PredictError::Export(_)
            | PredictError::Fetch(_) => Reason::Failed,
        };
        Refusal::new(reason, error.to_string())
    }
}

/// Refuses a request as one that cannot be understood.
macro_rules! invalid {
    ($($text:tt)*) => { $crate::error::Refusal::new($crate::error::Reason::Invalid, format!($($text)*)) };
}
pub(crate) use invalid;

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = (self.reason.status(), Json(json!({ "error": self.text }))).into_response();
        if matches!(self.reason, Reason::Full | Reason::Unavailable) {
            response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
        }
        response
    }
}

impl From<Refusal> for tonic::Status {
    fn from(refusal: Refusal) -> tonic::Status {
        tonic::Status::new(refusal.reason.code(), refusal.text)
    }
}
