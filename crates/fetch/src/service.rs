//! Small questions and answers in JSON, for services beside a run such as an experiment tracker.

use crate::FetchError;
use crate::http::agent;
use ureq::Agent;

/// A service that answers JSON over HTTP.
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

    /// Sends a body, or asks without one. Returns the status and the answer, whatever they are.
    pub fn call(&self, path: &str, body: Option<&str>) -> Result<(u16, String), FetchError> {
        let url = format!("{}{path}", self.base);
        let failed = |error: ureq::Error| FetchError::NoService { url: url.clone(), reason: error.to_string() };
        let authorization = self.authorization.iter().map(|value| ("authorization", value.as_str()));
        let answer = match body {
            Some(body) => {
                let request = self.agent.post(&url).header("content-type", "application/json");
                authorization.fold(request, |request, (name, value)| request.header(name, value)).send(body)
            }
            None => {
                authorization.fold(self.agent.get(&url), |request, (name, value)| request.header(name, value)).call()
            }
        };
        let mut answer = answer.map_err(failed)?;
        let text = answer.body_mut().read_to_string().map_err(failed)?;
        Ok((answer.status().as_u16(), text))
    }
}
