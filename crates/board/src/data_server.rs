//! TensorBoard's data server: the service `tensorboard.data.TensorBoardDataProvider` over gRPC.
//!
//! Values of older writers are presented as newer ones write them, because TensorBoard's plugins expect that of a data
//! server. Unlike TensorBoard's own server everything is kept; what is sent is thinned to the number that is requested.

mod messages;
mod modern;
mod provider;

use crate::store::Store;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::post;
use prost::Message;
use provider::Provider;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio_stream::Stream;
use tonic::Status;
use tonic::server::Grpc;
use tonic_prost::ProstCodec;

const SERVICE: &str = "/tensorboard.data.TensorBoardDataProvider";

/// The options of TensorBoard's data server.
#[derive(Debug, Clone)]
pub struct DataOptions {
    /// The folder of runs.
    pub folder: PathBuf,
    /// Where to listen.
    pub address: SocketAddr,
    /// How often files are polled; `None` reads them once.
    pub reload: Option<Duration>,
    /// How many values of a plugin's tags are sent, by plugin; `None` for all.
    pub samples: Vec<(String, Option<usize>)>,
}

pub(crate) fn router(store: Arc<Store>, options: &DataOptions) -> Router {
    let provider = Arc::new(Provider::new(store, options.folder.display().to_string(), options.samples.clone()));
    let router = Router::new();
    let router = unary(router, &provider, "GetExperiment", Provider::experiment);
    let router = unary(router, &provider, "ListPlugins", Provider::plugins);
    let router = unary(router, &provider, "ListRuns", Provider::runs);
    let router = unary(router, &provider, "ListScalars", Provider::list_scalars);
    let router = unary(router, &provider, "ReadScalars", Provider::read_scalars);
    let router = unary(router, &provider, "ListTensors", Provider::list_tensors);
    let router = unary(router, &provider, "ReadTensors", Provider::read_tensors);
    let router = unary(router, &provider, "ListBlobSequences", Provider::list_blobs);
    let router = unary(router, &provider, "ReadBlobSequences", Provider::read_blobs);
    router.route(&format!("{SERVICE}/ReadBlob"), post(move |request: Request| read_blob(provider, request)))
}

/// A method with one response; the work is done on a thread that may block.
fn unary<Q, A>(
    router: Router,
    provider: &Arc<Provider>,
    name: &str,
    method: fn(&Provider, Q) -> Result<A, Status>,
) -> Router
where
    Q: Message + Default + 'static,
    A: Message + Default + 'static,
{
    let provider = provider.clone();
    let handler = async move |request: Request| -> Response {
        let service = tower::service_fn(move |request: tonic::Request<Q>| {
            let provider = provider.clone();
            async move {
                let work = tokio::task::spawn_blocking(move || method(&provider, request.into_inner()));
                work.await.unwrap_or_else(|_| Err(Status::internal("it failed"))).map(tonic::Response::new)
            }
        });
        Grpc::new(ProstCodec::<A, Q>::default()).unary(service, request).await.map(Body::new)
    };
    router.route(&format!("{SERVICE}/{name}"), post(handler))
}

type Pieces = std::pin::Pin<Box<dyn Stream<Item = Result<messages::ReadBlobResponse, Status>> + Send>>;

async fn read_blob(provider: Arc<Provider>, request: Request) -> Response {
    let service = tower::service_fn(move |request: tonic::Request<messages::ReadBlobRequest>| {
        let provider = provider.clone();
        async move {
            let key = request.into_inner().blob_key;
            let work = tokio::task::spawn_blocking(move || provider.read_blob(&key));
            let blob = work.await.unwrap_or_else(|_| Err(Status::internal("it failed")))?;
            // Messages stay far below the limit of the client.
            let pieces: Vec<_> =
                blob.chunks(8 << 20).map(|piece| Ok(messages::ReadBlobResponse { data: piece.to_vec() })).collect();
            let stream: Pieces = Box::pin(tokio_stream::iter(pieces));
            Ok::<_, Status>(tonic::Response::new(stream))
        }
    });
    let codec = ProstCodec::<messages::ReadBlobResponse, messages::ReadBlobRequest>::default();
    Grpc::new(codec).server_streaming(service, request).await.map(Body::new)
}
