//! The addresses over HTTP.

use crate::error::{Reason, Refusal, invalid};
use crate::loaded::Loaded;
use crate::metrics;
use crate::model::Model;
use crate::options::PART;
use crate::protocol::{TensorSpec, read_request, write_response};
use crate::shared::Shared;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use octant_data::AnyImage;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::SemaphorePermit;
use tokio_stream::StreamExt;

/// The length of the JSON in front of binary tensors.
const JSON_LENGTH: &str = "inference-header-content-length";
/// How long a client may take to send a request that is refused already.
const DISCARD_TIME: Duration = Duration::from_secs(2);
/// Addresses that need no token: health checks have none.
pub(crate) const OPEN: &[&str] = &["/v2/health/live", "/v2/health/ready"];

const PAGE: [(&str, &str, &[u8]); 3] = [
    ("/", "text/html; charset=utf-8", include_bytes!("../web/page.html")),
    ("/page.css", "text/css", include_bytes!("../web/page.css")),
    ("/page.js", "text/javascript", include_bytes!("../web/page.js")),
];

type HttpResult = Result<Response, Refusal>;
type Server = State<Arc<Shared>>;

pub(crate) fn router(shared: Arc<Shared>) -> Router {
    let mut router = Router::new()
        .route("/v2", get(server_metadata))
        .route("/v2/health/live", get(|| async { StatusCode::OK }))
        .route("/v2/health/ready", get(ready))
        .route("/v2/models", get(models))
        .route("/v2/models/{model}", get(metadata))
        .route("/v2/models/{model}/ready", get(model_ready))
        .route("/v2/models/{model}/infer", post(infer))
        .route("/v2/models/{model}/versions/{version}", get(metadata))
        .route("/v2/models/{model}/versions/{version}/ready", get(model_ready))
        .route("/v2/models/{model}/versions/{version}/infer", post(infer))
        .route("/predict", post(predict))
        .route("/metrics", get(metrics))
        .fallback(|| async { Refusal::new(Reason::Missing, "there is no such address") });
    for (path, kind, bytes) in PAGE {
        router = router.route(path, get(move || async move { ([(header::CONTENT_TYPE, kind)], bytes) }));
    }
    router.with_state(shared)
}

/// The parts of an address that name a model.
#[derive(Deserialize)]
struct Named {
    model: String,
    #[serde(default)]
    version: String,
}

impl Named {
    fn find(&self, shared: &Shared) -> Result<(Arc<Model>, Arc<Loaded>), Refusal> {
        let model = shared.model(&self.model)?;
        let loaded = model.version(&self.version)?;
        Ok((model, loaded))
    }
}

async fn ready(State(shared): Server) -> StatusCode {
    if shared.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

async fn server_metadata() -> Json<Value> {
    Json(json!({ "name": "octant", "version": env!("CARGO_PKG_VERSION"), "extensions": ["binary_tensor_data"] }))
}

async fn models(State(shared): Server) -> Result<Json<Value>, Refusal> {
    let names: Vec<&str> = shared.models()?.keys().map(String::as_str).collect();
    Ok(Json(json!({ "models": names })))
}

async fn model_ready(State(shared): Server, Path(named): Path<Named>) -> Result<StatusCode, Refusal> {
    named.find(&shared)?;
    Ok(StatusCode::OK)
}

async fn metadata(State(shared): Server, Path(named): Path<Named>) -> Result<Json<Value>, Refusal> {
    let (model, loaded) = named.find(&shared)?;
    let listed = |specs: &[TensorSpec]| -> Value {
        let one =
            |spec: &TensorSpec| json!({ "name": spec.name, "datatype": spec.datatype.name(), "shape": spec.shape() });
        specs.iter().map(one).collect()
    };
    Ok(Json(json!({
        "name": model.name, "versions": [loaded.version.to_string()], "platform": "octant",
        "inputs": listed(&loaded.inputs), "outputs": listed(&loaded.outputs),
        "parameters": { "model": loaded.predictor.network().recipe.model, "preprocessing": loaded.predictor.preprocessing() },
    })))
}

async fn infer(State(shared): Server, Path(named): Path<Named>, headers: HeaderMap, body: Body) -> HttpResult {
    let (model, body) = (shared.model(&named.model), received(&shared, &headers, body).await);
    let model = model?;
    let (body, _memory) = body.inspect_err(|error| model.metrics.refused(error.reason))?;
    let length = headers.get(JSON_LENGTH).map(|length| length.to_str().ok()?.parse::<usize>().ok());
    let read = match length {
        Some(None) => Err(invalid!("Inference-Header-Content-Length is no number")),
        Some(length) => read_request(&body, length),
        None => read_request(&body, None),
    };
    let mut request = read.inspect_err(|error| model.metrics.refused(error.reason))?;
    let response = shared.desk.infer(&model, &named.version, std::mem::take(&mut request.request)).await?;
    let (body, json_length) = write_response(&response, &request)?;
    let mut response = body.into_response();
    let kind = if json_length.is_some() { "application/octet-stream" } else { "application/json" };
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    if let Some(length) = json_length {
        response.headers_mut().insert(JSON_LENGTH, length.into());
    }
    Ok(response)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PredictQuery {
    /// Only needed where several are served.
    model: Option<String>,
    /// How many classes are listed.
    top: Option<usize>,
    #[serde(default)]
    format: Format,
    /// Checked before; a part of the address nevertheless.
    #[serde(rename = "token")]
    _token: Option<String>,
}

#[derive(Deserialize, Default, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Format {
    #[default]
    Json,
    Png,
}

async fn predict(
    State(shared): Server,
    query: Result<Query<PredictQuery>, axum::extract::rejection::QueryRejection>,
    headers: HeaderMap,
    body: Body,
) -> HttpResult {
    let Query(query) =
        query.map_err(|error| invalid!("{}; use model=, top= and format=json|png", error.body_text()))?;
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.starts_with("multipart/") {
        let text = "send the image as the body itself: curl --data-binary @image.jpg";
        return Err(Refusal::new(Reason::Unsupported, text));
    }
    let body = received(&shared, &headers, body).await;
    let models = shared.models()?;
    let model = match (&query.model, models.first_key_value()) {
        (Some(name), _) => shared.model(name)?,
        (None, Some((_, only))) if models.len() == 1 => only.clone(),
        (None, _) => return Err(invalid!("several models are served: add ?model= and one of {}", shared.names())),
    };
    let (body, _memory) = body.inspect_err(|error| model.metrics.refused(error.reason))?;
    let (image, prediction) = shared.desk.predict(&model, body).await?;
    if query.format == Format::Json {
        return Ok(Json(Value::Object(prediction.json(query.top.unwrap_or(1)))).into_response());
    }
    let Some(drawn) = prediction.draw(&image) else {
        return Err(invalid!("nothing can be drawn of this prediction; request it as JSON"));
    };
    let png = octant_data::encode_png(&AnyImage::U8(drawn)).map_err(|text| Refusal::new(Reason::Failed, text))?;
    Ok(([(header::CONTENT_TYPE, "image/png")], png).into_response())
}

async fn metrics(State(shared): Server) -> HttpResult {
    let models = shared.models()?;
    let loaded: Vec<(&Arc<Model>, u64)> =
        models.values().map(|model| (model, model.loaded().predictor.memory().weights)).collect();
    let shown: Vec<metrics::Shown> =
        loaded.iter().map(|(model, bytes)| (model.name.as_str(), &*model.metrics, model.queue.len(), *bytes)).collect();
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], metrics::page(&shown)).into_response())
}

/// Reads a body and keeps nothing of it: a client that is still sending when the connection is closed would lose the response.
async fn discard(body: Body, most: usize) {
    let read = async {
        let (mut pieces, mut left) = (body.into_data_stream(), most);
        while let Some(Ok(piece)) = pieces.next().await
            && left > piece.len()
        {
            left -= piece.len();
        }
    };
    let _ = tokio::time::timeout(DISCARD_TIME, read).await;
}

/// The body of a request, within the limits of size, memory and time, and the memory that it holds.
async fn received<'a>(
    shared: &'a Shared,
    headers: &HeaderMap,
    body: Body,
) -> Result<(Bytes, SemaphorePermit<'a>), Refusal> {
    let most = shared.options.max_request;
    let too_large = || {
        let text = format!("the request is larger than the {} MiB that are taken (--max-request)", most >> 20);
        Refusal::new(Reason::TooLarge, text)
    };
    if headers.get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        return Err(Refusal::new(Reason::Unsupported, "compressed requests are not read; send it as it is"));
    }
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > most) {
        return Err(too_large());
    }
    // A client that does not say how much it will send may send as much as is taken.
    let parts = announced.unwrap_or(most).div_ceil(PART).max(1);
    let Ok(memory) = shared.memory.try_acquire_many(u32::try_from(parts).unwrap_or(u32::MAX)) else {
        discard(body, most).await;
        return Err(Refusal::new(Reason::Full, "other requests fill the memory for requests; try again later"));
    };
    let read = async {
        let mut bytes = Vec::with_capacity(announced.unwrap_or(0));
        let mut pieces = body.into_data_stream();
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|error| invalid!("the request ended early: {error}"))?;
            if bytes.len() + piece.len() > most {
                return Err(too_large());
            }
            bytes.extend_from_slice(&piece);
        }
        Ok(Bytes::from(bytes))
    };
    let late = |_| Refusal::new(Reason::Slow, "the request was not sent in time");
    Ok((tokio::time::timeout(shared.options.timeout, read).await.map_err(late)??, memory))
}
