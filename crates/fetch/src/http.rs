//! One request and its response, and which failures are worth another attempt; requests to services in JSON.

use crate::FetchError;
use crate::credentials::{Credentials, empty_body};
use std::io::Read;
use std::time::Duration;
use ureq::http::Response;
use ureq::{Agent, Body, SendBody};

/// Where a file lies, and how to request it.
#[derive(Debug, Clone)]
pub(crate) struct Remote {
    pub url: String,
    pub credentials: Credentials,
}

/// Why a request did not lead to the whole file.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The server was not found or does not respond.
    Unreachable(String),
    /// The connection broke, or the server has a passing problem.
    Broken(String),
    /// The server refuses permanently.
    Status(u16),
    /// The bucket is served from another region.
    OtherRegion(String),
    /// The disk is full or write-protected.
    Disk(std::io::Error),
}

pub(crate) fn agent() -> Agent {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .timeout_connect(Some(Duration::from_secs(20)))
        .timeout_recv_response(Some(Duration::from_secs(60)))
        // A stalled connection is cut after this time. So is one that works, but that costs nothing: it is resumed.
        .timeout_recv_body(Some(Duration::from_secs(300)))
        // What is sent is repeated from its beginning, so a slow connection gets the time for a whole piece.
        .timeout_send_body(Some(Duration::from_secs(3600)))
        .user_agent(concat!("octant/", env!("CARGO_PKG_VERSION")))
        .build();
    Agent::new_with_config(config)
}

impl Remote {
    pub fn public(url: impl Into<String>) -> Remote {
        Remote { url: url.into(), credentials: Credentials::Anonymous }
    }

    pub fn get(&self, agent: &Agent, headers: &[(&str, String)]) -> Result<Response<Body>, Failure> {
        self.send(agent.get(&self.url), "GET", headers)
    }

    pub fn head(&self, agent: &Agent) -> Result<Response<Body>, Failure> {
        self.send(agent.head(&self.url), "HEAD", &[])
    }

    /// Stores a body of that many bytes with that SHA-256.
    pub fn put(
        &self,
        agent: &Agent,
        mut body: impl Read,
        (bytes, hash): (u64, &str),
        condition: Option<(&str, &str)>,
    ) -> Result<(), Failure> {
        let mut request = agent.put(&self.url).header("content-length", bytes.to_string());
        if let Some((name, value)) = condition {
            request = request.header(name, value);
        }
        for (name, value) in self.credentials.headers("PUT", &self.url, hash) {
            request = request.header(name, value);
        }
        let response = request.send(SendBody::from_reader(&mut body)).map_err(of_connection)?;
        checked(response).map(drop)
    }

    /// Removes what is there; nothing is there afterwards.
    pub fn delete(&self, agent: &Agent) -> Result<(), Failure> {
        match self.send(agent.delete(&self.url), "DELETE", &[]) {
            Err(Failure::Status(404)) => Ok(()),
            response => response.map(drop),
        }
    }

    fn send(
        &self,
        mut request: ureq::RequestBuilder<ureq::typestate::WithoutBody>,
        method: &str,
        headers: &[(&str, String)],
    ) -> Result<Response<Body>, Failure> {
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        for (name, value) in self.credentials.headers(method, &self.url, &empty_body()) {
            request = request.header(name, value);
        }
        checked(request.call().map_err(of_connection)?)
    }
}

/// The response, or why it is none.
fn checked(response: Response<Body>) -> Result<Response<Body>, Failure> {
    match response.status().as_u16() {
        200 | 201 | 204 | 206 | 416 => Ok(response),
        408 | 425 | 429 | 500.. => Err(Failure::Broken(format!("it returned {}", response.status()))),
        status => Err(match header(&response, "x-amz-bucket-region") {
            Some(region) if status == 301 || status == 400 => Failure::OtherRegion(region),
            _ => Failure::Status(status),
        }),
    }
}

fn of_connection(error: ureq::Error) -> Failure {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, TimedOut, UnexpectedEof};
    match error {
        ureq::Error::Io(error)
            if matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | TimedOut | UnexpectedEof) =>
        {
            Failure::Broken(error.to_string())
        }
        ureq::Error::Protocol(error) => Failure::Broken(error.to_string()),
        ureq::Error::Io(error) => Failure::Unreachable(error.to_string()),
        other => Failure::Unreachable(other.to_string()),
    }
}

pub(crate) fn header(response: &Response<Body>, name: &str) -> Option<String> {
    Some(response.headers().get(name)?.to_str().ok()?.to_string())
}

/// What distinguishes one version of a file from the next. A weak tag may stay the same while bytes change.
pub(crate) fn version(response: &Response<Body>) -> Option<String> {
    let strong = header(response, "etag").filter(|tag| !tag.starts_with("W/"));
    strong.or_else(|| header(response, "last-modified"))
}

/// A service beside a run that speaks JSON over HTTP, such as an experiment tracker.
pub struct Service {
    agent: Agent,
    base: String,
    authorization: Option<String>,
}

impl Service {
    /// The service below an address; `authorization` is the header's value.
    pub fn new(base: &str, authorization: Option<String>) -> Service {
        Service { agent: agent(), base: base.trim_end_matches('/').into(), authorization }
    }

    /// Sends a body, or a request without one. Returns the status and the response, whatever they are.
    pub fn call(&self, path: &str, body: Option<&str>) -> Result<(u16, String), FetchError> {
        let url = format!("{}{path}", self.base);
        let failed = |error: ureq::Error| FetchError::NoService { url: url.clone(), reason: error.to_string() };
        let authorization = self.authorization.iter().map(|value| ("authorization", value.as_str()));
        let response = match body {
            Some(body) => {
                let request = self.agent.post(&url).header("content-type", "application/json");
                authorization.fold(request, |request, (name, value)| request.header(name, value)).send(body)
            }
            None => {
                authorization.fold(self.agent.get(&url), |request, (name, value)| request.header(name, value)).call()
            }
        };
        let mut response = response.map_err(failed)?;
        let text = response.body_mut().read_to_string().map_err(failed)?;
        Ok((response.status().as_u16(), text))
    }
}
