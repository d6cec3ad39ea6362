//! The same protocol over gRPC: the service `inference.GRPCInferenceService`.

mod messages;
mod metered;

use crate::error::{Reason, Refusal, invalid};
use crate::protocol::{Elements, InferRequest, InferResponse, Tensor, TensorSpec};
use crate::shared::Shared;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::routing::post;
use messages::{
    Empty, InferTensorContents, ModelInferRequest, ModelInferResponse, ModelMetadataResponse, ModelRequest,
    OutputTensor, ReadyResponse, ServerMetadataResponse, TensorMetadata,
};
use metered::metered;
use prost::Message;
use std::sync::Arc;
use std::time::Duration;
use tonic::Status;
use tonic::server::Grpc;
use tonic_prost::ProstCodec;

const SERVICE: &str = "/inference.GRPCInferenceService";

pub(crate) fn router(shared: &Arc<Shared>) -> Router {
    let router = Router::new();
    let router = unary(router, shared, "ServerLive", |_, _: Empty, _| async { Ok(ReadyResponse { ready: true }) });
    let router = unary(router, shared, "ServerReady", |shared, _: Empty, _| async move {
        Ok(ReadyResponse { ready: shared.is_ready() })
    });
    let router = unary(router, shared, "ServerMetadata", |_, _: Empty, _| async {
        let version = env!("CARGO_PKG_VERSION").to_string();
        Ok(ServerMetadataResponse { name: "octant".into(), version, extensions: Vec::new() })
    });
    let router = unary(router, shared, "ModelReady", |shared, request: ModelRequest, _| async move {
        // A model that is not here is not ready: clients expect no error of this question.
        let found = shared.model(&request.name).and_then(|model| model.version(&request.version));
        Ok(ReadyResponse { ready: found.is_ok() })
    });
    let router = unary(router, shared, "ModelMetadata", |shared, request: ModelRequest, _| async move {
        model_metadata(&shared, &request)
    });
    unary(router, shared, "ModelInfer", model_infer)
}

/// A method with one request and one response. The call's deadline comes with it.
fn unary<Q, A, F>(
    router: Router,
    shared: &Arc<Shared>,
    name: &str,
    method: impl Fn(Arc<Shared>, Q, Option<Duration>) -> F + Clone + Send + Sync + 'static,
) -> Router
where
    Q: Message + Default + 'static,
    A: Message + Default + 'static,
    F: Future<Output = Result<A, Refusal>> + Send,
{
    let shared = shared.clone();
    let handler = async move |request: Request| {
        let timeout = timeout(request.headers());
        let most = shared.options.max_request;
        let (request, held) = metered(request, &shared);
        let service = tower::service_fn(move |request: tonic::Request<Q>| {
            let response = method(shared.clone(), request.into_inner(), timeout);
            async move { response.await.map(tonic::Response::new).map_err(Status::from) }
        });
        let codec = ProstCodec::<A, Q>::default();
        let response = Grpc::new(codec).max_decoding_message_size(most).unary(service, request).await.map(Body::new);
        drop(held);
        response
    };
    router.route(&format!("{SERVICE}/{name}"), post(handler))
}

/// The deadline that the client set, as gRPC writes it: digits and a unit.
fn timeout(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let number: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(number.saturating_mul(3600))),
        "M" => Some(Duration::from_secs(number.saturating_mul(60))),
        "S" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_millis(number)),
        "u" => Some(Duration::from_micros(number)),
        "n" => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

fn model_metadata(shared: &Shared, request: &ModelRequest) -> Result<ModelMetadataResponse, Refusal> {
    let model = shared.model(&request.name)?;
    let loaded = model.version(&request.version)?;
    let listed = |specs: &[TensorSpec]| {
        let one = |spec: &TensorSpec| TensorMetadata {
            name: spec.name.into(),
            datatype: spec.datatype.name().into(),
            shape: spec.shape(),
        };
        specs.iter().map(one).collect()
    };
    Ok(ModelMetadataResponse {
        name: model.name.clone(),
        versions: vec![loaded.version.to_string()],
        platform: "octant".into(),
        inputs: listed(&loaded.inputs),
        outputs: listed(&loaded.outputs),
    })
}

async fn model_infer(
    shared: Arc<Shared>,
    request: ModelInferRequest,
    timeout: Option<Duration>,
) -> Result<ModelInferResponse, Refusal> {
    let model = shared.model(&request.model_name)?;
    let version = request.model_version.clone();
    let request = read(request, timeout).inspect_err(|refusal| model.metrics.refused(refusal.reason))?;
    Ok(written(shared.desk.infer(&model, &version, request).await?))
}

fn read(request: ModelInferRequest, timeout: Option<Duration>) -> Result<InferRequest, Refusal> {
    let ModelInferRequest { id, inputs, outputs, raw_input_contents: raw, parameters, .. } = request;
    // The protocol leaves parameters to servers; one that has no effect here must not seem to have one.
    let of_inputs = inputs.iter().flat_map(|input| input.parameters.keys());
    let of_outputs = outputs.iter().flat_map(|output| output.parameters.keys());
    if let Some(name) = parameters.keys().chain(of_inputs).chain(of_outputs).next() {
        return Err(invalid!("the parameter {name:?} has no meaning here; set a deadline of the call for a time-out"));
    }
    if !raw.is_empty() && raw.len() != inputs.len() {
        return Err(invalid!("{} inputs came with {} raw_input_contents", inputs.len(), raw.len()));
    }
    let mut raw = raw.into_iter();
    let mut tensors = Vec::with_capacity(inputs.len());
    for input in inputs {
        let (name, datatype, shape) = (&input.name, &input.datatype, &input.shape);
        tensors.push(match (raw.next(), input.contents) {
            (Some(bytes), None) => Tensor::unpacked(name, datatype, shape, &bytes)?,
            (None, Some(contents)) => Tensor::of_elements(name, datatype, shape, elements(name, contents)?)?,
            (Some(_), Some(_)) => return Err(invalid!("input {name:?} has both contents and raw_input_contents")),
            (None, None) => return Err(invalid!("input {name:?} has neither contents nor raw_input_contents")),
        });
    }
    let outputs = outputs.into_iter().map(|output| output.name).collect();
    Ok(InferRequest { id, inputs: tensors, outputs, timeout })
}

fn elements(name: &str, contents: InferTensorContents) -> Result<Elements, Refusal> {
    let InferTensorContents { uint_contents: bytes, fp32_contents: floats, bytes_contents: strings } = contents;
    match (bytes.is_empty(), floats.is_empty(), strings.is_empty()) {
        (false, true, true) => Ok(Elements::Numbers(bytes.into_iter().map(f64::from).collect())),
        (true, false, true) => Ok(Elements::Numbers(floats.into_iter().map(f64::from).collect())),
        (true, true, false) => Ok(Elements::Strings(strings)),
        _ => Err(invalid!("input {name:?} needs one of uint_contents, fp32_contents and bytes_contents")),
    }
}

fn written(response: InferResponse) -> ModelInferResponse {
    let raw_output_contents = response.outputs.iter().map(|output| output.data.packed()).collect();
    let output = |tensor: Tensor| OutputTensor {
        name: tensor.name,
        datatype: tensor.datatype.name().into(),
        shape: tensor.shape.iter().map(|&dim| dim as i64).collect(),
    };
    ModelInferResponse {
        model_name: response.model,
        model_version: response.version.to_string(),
        id: response.id,
        outputs: response.outputs.into_iter().map(output).collect(),
        raw_output_contents,
    }
}

/// The refusal of a request when other requests fill the memory.
fn no_memory() -> Status {
    Refusal::new(Reason::Full, "other requests fill the memory for requests; try again later").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_are_read_with_their_units_and_nothing_else_is() {
        let read = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("grpc-timeout", text.parse().ok()?);
            timeout(&headers)
        };
        assert_eq!(read("250m"), Some(Duration::from_millis(250)));
        assert_eq!(read("3S"), Some(Duration::from_secs(3)));
        for wrong in ["", "m", "250", "-1S", "5x", "1é"] {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
    }
}
