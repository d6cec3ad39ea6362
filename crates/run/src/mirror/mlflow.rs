//! An MLflow server, by its REST interface.

use super::{Mirror, Point, RunEnd, RunFacts};
use crate::{Result, RunError};
use octant_fetch::Service;
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

/// What one request may hold.
const METRICS: usize = 1000;
const PARAMETERS: usize = 100;
/// Longer values of parameters are refused by servers with a database.
const LONGEST: usize = 500;

pub(super) struct Mlflow {
    service: Service,
    server: String,
    experiment: String,
    run_name: String,
    parameters: Vec<Value>,
    /// The server's name of the run, once it was created.
    run: Option<String>,
}

impl Mlflow {
    /// `state` is what an earlier process returned.
    pub fn new(server: &str, facts: &RunFacts, state: &Value) -> Mlflow {
        let parameter = |(name, value): &(String, Value)| {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_string);
            json!({ "key": key(name), "value": text.chars().take(LONGEST).collect::<String>() })
        };
        let is_same = state["server"].as_str() == Some(server);
        Mlflow {
            service: Service::new(server, authorization()),
            server: server.into(),
            experiment: facts.recipe.clone(),
            run_name: facts.name.clone(),
            parameters: facts.settings.iter().map(parameter).collect(),
            run: state["run"].as_str().filter(|_| is_same).map(str::to_string),
        }
    }

    fn call(&self, path: &str, body: Option<Value>) -> Result<(u16, Value)> {
        let text = body.map(|body| body.to_string());
        let (status, response) = self.service.call(&format!("/api/2.0/mlflow/{path}"), text.as_deref())?;
        let response: Value = serde_json::from_str(&response).unwrap_or(Value::Null);
        Ok((status, response))
    }

    /// A request that must succeed.
    fn post(&self, path: &str, body: Value) -> Result<Value> {
        let (status, response) = self.call(path, Some(body))?;
        match status {
            200 => Ok(response),
            _ => {
                let reason = response["message"].as_str().unwrap_or("without a reason");
                refused(format!("{path} returned {status}: {reason}"))
            }
        }
    }

    fn experiment(&self) -> Result<String> {
        let path = format!("experiments/get-by-name?experiment_name={}", encoded(&self.experiment));
        let (status, found) = self.call(&path, None)?;
        let id = match status {
            200 => found["experiment"]["experiment_id"].as_str().map(str::to_string),
            _ => {
                let made = self.post("experiments/create", json!({ "name": self.experiment }))?;
                made["experiment_id"].as_str().map(str::to_string)
            }
        };
        id.map_or_else(|| refused("the server returned no id of the experiment".into()), Ok)
    }

    /// The run on the server; created with its settings when it is first needed.
    fn run(&mut self) -> Result<String> {
        if let Some(run) = &self.run {
            return Ok(run.clone());
        }
        let request = json!({
            "experiment_id": self.experiment()?, "run_name": self.run_name, "start_time": milliseconds(),
            "tags": [{ "key": "mlflow.source.name", "value": "octant" }],
        });
        let made = self.post("runs/create", request)?;
        let Some(run) = made["run"]["info"]["run_id"].as_str() else {
            return refused("the server returned no id of the run".into());
        };
        for parameters in self.parameters.chunks(PARAMETERS) {
            self.post("runs/log-batch", json!({ "run_id": run, "params": parameters }))?;
        }
        self.run = Some(run.to_string());
        Ok(run.to_string())
    }
}

impl Mirror for Mlflow {
    fn name(&self) -> &'static str {
        "mlflow"
    }

    fn send(&mut self, points: &[Point]) -> Result<()> {
        let run = self.run()?;
        for points in points.chunks(METRICS) {
            let metrics: Vec<Value> = points.iter().map(metric).collect();
            self.post("runs/log-batch", json!({ "run_id": run, "metrics": metrics }))?;
        }
        Ok(())
    }

    fn end(&mut self, end: RunEnd) -> Result<()> {
        let status = match end {
            RunEnd::Finished => "FINISHED",
            RunEnd::Stopped => "KILLED",
            RunEnd::Failed => "FAILED",
        };
        let run = self.run()?;
        self.post("runs/update", json!({ "run_id": run, "status": status, "end_time": milliseconds() }))?;
        Ok(())
    }

    fn state(&self) -> Value {
        json!({ "server": self.server, "run": self.run })
    }
}

fn refused<T>(sentence: String) -> Result<T> {
    Err(RunError::Refused(sentence))
}

fn metric(point: &Point) -> Value {
    // As protocol buffers write numbers that JSON lacks.
    let value = match point.value {
        value if value.is_nan() => json!("NaN"),
        f32::INFINITY => json!("Infinity"),
        f32::NEG_INFINITY => json!("-Infinity"),
        value => json!(value),
    };
    json!({ "key": key(&point.tag), "value": value, "timestamp": (point.time * 1000.0) as i64, "step": point.step })
}

/// A name that MLflow takes: letters, digits, and few other signs.
fn key(name: &str) -> String {
    let sign = |sign: char| if sign.is_alphanumeric() || "_-. /".contains(sign) { sign } else { '_' };
    name.chars().map(sign).take(250).collect()
}

fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

fn milliseconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}

/// In whose name, as MLflow's own client reads it from the environment.
fn authorization() -> Option<String> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    if let Some(token) = variable("MLFLOW_TRACKING_TOKEN") {
        return Some(format!("Bearer {token}"));
    }
    let user = variable("MLFLOW_TRACKING_USERNAME")?;
    let pair = format!("{user}:{}", variable("MLFLOW_TRACKING_PASSWORD").unwrap_or_default());
    Some(format!("Basic {}", base64(pair.as_bytes())))
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let encode = |chunk: &[u8]| {
        let bits = (0..3).fold(0u32, |bits, index| bits << 8 | u32::from(chunk.get(index).copied().unwrap_or(0)));
        let digit = move |index: usize| match index <= chunk.len() {
            true => char::from(DIGITS[(bits >> (18 - 6 * index)) as usize & 63]),
            false => '=',
        };
        (0..4).map(digit).collect::<String>()
    };
    bytes.chunks(3).map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_written_as_the_server_takes_them() {
        assert_eq!(
            ["", "f", "fo", "foo", "foob"].map(|text| base64(text.as_bytes())),
            ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]
        );
        assert_eq!((key("val/größe (mean)"), encoded("a b/ü")), ("val/größe _mean_".into(), "a%20b%2F%C3%BC".into()));
        let point = Point { tag: "loss".into(), step: 3, time: 1.5, value: f32::NAN };
        assert_eq!(metric(&point), json!({ "key": "loss", "value": "NaN", "timestamp": 1500, "step": 3 }));
    }
}
