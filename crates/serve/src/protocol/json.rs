//! Requests and responses over HTTP.

use super::{Data, DataType, Elements, InferRequest, InferResponse, Tensor};
use crate::error::{Reason, Refusal, invalid};
use axum::body::Bytes;
use serde::de::{DeserializeSeed, Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

/// A request, and which of its outputs are wanted as bytes behind the JSON.
pub(crate) struct HttpRequest {
    pub request: InferRequest,
    binary: HashMap<String, bool>,
    binary_by_default: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestJson {
    #[serde(default)]
    id: String,
    #[serde(default)]
    parameters: RequestParameters,
    inputs: Vec<InputJson>,
    #[serde(default)]
    outputs: Vec<OutputJson>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct RequestParameters {
    #[serde(default)]
    binary_data_output: bool,
    /// In microseconds.
    timeout: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InputJson {
    name: String,
    datatype: String,
    shape: Vec<i64>,
    #[serde(default)]
    parameters: InputParameters,
    data: Option<JsonElements>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct InputParameters {
    binary_data_size: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OutputJson {
    name: String,
    #[serde(default)]
    parameters: OutputParameters,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct OutputParameters {
    binary_data: Option<bool>,
}

/// Reads a request: JSON of `json_length` bytes, all of them if not given, and the tensors behind it.
pub(crate) fn read_request(body: &Bytes, json_length: Option<usize>) -> Result<HttpRequest, Refusal> {
    let json_length = json_length.unwrap_or(body.len());
    if json_length > body.len() {
        return Err(invalid!(
            "Inference-Header-Content-Length is {json_length}, more than the {} bytes of the request",
            body.len()
        ));
    }
    let mut rest = body.slice(json_length..);
    let json: RequestJson = serde_json::from_slice(&body[..json_length])
        .map_err(|error| invalid!("the request is not an inference request in JSON: {error}"))?;
    let mut inputs = Vec::with_capacity(json.inputs.len().min(16));
    for input in json.inputs {
        let InputJson { name, datatype, shape, parameters, data } = input;
        inputs.push(match (parameters.binary_data_size, data) {
            (Some(size), None) if size <= rest.len() => {
                let bytes = rest.slice(..size);
                rest = rest.slice(size..);
                Tensor::unpacked(&name, &datatype, &shape, &bytes)?
            }
            (Some(size), None) => {
                let left = rest.len();
                return Err(invalid!("input {name:?} has {size} bytes behind the JSON, but {left} are left there"));
            }
            (None, Some(data)) => Tensor::of_elements(&name, &datatype, &shape, data.elements(&datatype)?)?,
            (Some(_), Some(_)) => return Err(invalid!("input {name:?} has both data and binary_data_size")),
            (None, None) => return Err(invalid!("input {name:?} has neither data nor binary_data_size")),
        });
    }
    if !rest.is_empty() {
        return Err(invalid!("{} bytes behind the JSON belong to no input", rest.len()));
    }
    let outputs: Vec<String> = json.outputs.iter().map(|output| output.name.clone()).collect();
    let named = json.outputs.into_iter().filter_map(|output| Some((output.name, output.parameters.binary_data?)));
    let timeout = json.parameters.timeout.map(Duration::from_micros);
    Ok(HttpRequest {
        request: InferRequest { id: json.id, inputs, outputs, timeout },
        binary: named.collect(),
        binary_by_default: json.parameters.binary_data_output,
    })
}

/// The elements of a tensor in JSON, whose arrays may be nested as the shape is or flat.
#[derive(Default)]
struct JsonElements {
    numbers: Vec<f64>,
    texts: Vec<String>,
}

impl JsonElements {
    fn elements(self, datatype: &str) -> Result<Elements, Refusal> {
        match (self.numbers.is_empty(), self.texts.is_empty()) {
            (false, false) => Err(invalid!("data has both numbers and strings")),
            (_, true) if datatype != DataType::Bytes.name() => Ok(Elements::Numbers(self.numbers)),
            (false, true) => Ok(Elements::Numbers(self.numbers)),
            // Encoded images are no text, so strings of JSON carry them in base64.
            (true, _) => {
                let decoded = self.texts.iter().map(|text| base64(text).map(Bytes::from));
                let wrong = || invalid!("strings in JSON are encoded images in base64; send others as binary tensors");
                Ok(Elements::Strings(decoded.collect::<Option<_>>().ok_or_else(wrong)?))
            }
        }
    }
}

impl<'de> Deserialize<'de> for JsonElements {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<JsonElements, D::Error> {
        let mut elements = JsonElements::default();
        Collector(&mut elements).deserialize(deserializer)?;
        Ok(elements)
    }
}

/// Adds what it reads to one list, so that a large tensor is not a tree of values first.
struct Collector<'a>(&'a mut JsonElements);

impl<'de> DeserializeSeed<'de> for Collector<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Collector<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str("numbers, strings, or arrays of them")
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        self.0.numbers.push(number);
        Ok(())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.visit_f64(number as f64)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.visit_f64(number as f64)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.0.texts.push(text.to_string());
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Collector(self.0))?.is_some() {}
        Ok(())
    }
}

/// Decodes base64, with or without padding; `None` for anything else.
fn base64(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=').as_bytes();
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for group in text.chunks(4) {
        let mut digits = group.iter().map(|letter| match letter {
            b'A'..=b'Z' => Some(letter - b'A'),
            b'a'..=b'z' => Some(letter - b'a' + 26),
            b'0'..=b'9' => Some(letter - b'0' + 52),
            b'+' | b'-' => Some(62),
            b'/' | b'_' => Some(63),
            _ => None,
        });
        let value = digits.try_fold(0u32, |value, digit| Some(value << 6 | u32::from(digit?)))?;
        let [_, first, second, third] = (value << (6 * (4 - group.len()))).to_be_bytes();
        match group.len() {
            4 => bytes.extend([first, second, third]),
            3 => bytes.extend([first, second]),
            2 => bytes.push(first),
            _ => return None,
        }
    }
    Some(bytes)
}

#[derive(Serialize)]
struct ResponseJson<'a> {
    model_name: &'a str,
    model_version: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    id: &'a str,
    outputs: Vec<ReturnedJson<'a>>,
}

#[derive(Serialize)]
struct ReturnedJson<'a> {
    name: &'a str,
    datatype: &'static str,
    shape: &'a [usize],
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<HashMap<&'static str, usize>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<ReturnedData>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum ReturnedData {
    Bytes(Vec<u8>),
    Integers(Vec<i64>),
    Floats(Vec<f32>),
    Texts(Vec<String>),
}

/// The body of a response, and the length of its JSON where tensors follow.
pub(crate) fn write_response(
    response: &InferResponse,
    request: &HttpRequest,
) -> Result<(Vec<u8>, Option<usize>), Refusal> {
    let mut behind = Vec::new();
    let mut outputs = Vec::with_capacity(response.outputs.len());
    for tensor in &response.outputs {
        let is_binary = request.binary.get(&tensor.name).copied().unwrap_or(request.binary_by_default);
        let (parameters, data) = match is_binary {
            true => {
                let packed = tensor.data.packed();
                let parameters = HashMap::from([("binary_data_size", packed.len())]);
                behind.push(packed);
                (Some(parameters), None)
            }
            false => (None, Some(returned(tensor)?)),
        };
        let (name, datatype, shape) = (&tensor.name, tensor.datatype.name(), &tensor.shape);
        outputs.push(ReturnedJson { name, datatype, shape, parameters, data });
    }
    let (model_version, id) = (response.version.to_string(), response.id.as_str());
    let json = ResponseJson { model_name: &response.model, model_version, id, outputs };
    let mut body = serde_json::to_vec(&json).map_err(|error| Refusal::new(Reason::Failed, error.to_string()))?;
    let json_length = (!behind.is_empty()).then_some(body.len());
    behind.iter().for_each(|packed| body.extend_from_slice(packed));
    Ok((body, json_length))
}

/// The elements of an output for JSON, which has no numbers that are not finite.
fn returned(tensor: &Tensor) -> Result<ReturnedData, Refusal> {
    Ok(match (&tensor.data, tensor.datatype) {
        (Data::Strings(strings), _) => {
            ReturnedData::Texts(strings.iter().map(|string| String::from_utf8_lossy(string).into_owned()).collect())
        }
        (Data::Raw(bytes), DataType::Uint8 | DataType::Bytes) => ReturnedData::Bytes(bytes.to_vec()),
        (Data::Raw(bytes), DataType::Int64) => {
            ReturnedData::Integers(bytes.as_chunks().0.iter().map(|&chunk| i64::from_le_bytes(chunk)).collect())
        }
        (Data::Raw(bytes), DataType::Fp32) => {
            let numbers: Vec<f32> = bytes.as_chunks().0.iter().map(|&chunk| f32::from_le_bytes(chunk)).collect();
            if numbers.iter().any(|number| !number.is_finite()) {
                let text =
                    format!("output {:?} has numbers that are not finite; request it as a binary tensor", tensor.name);
                return Err(Refusal::new(Reason::Failed, text));
            }
            ReturnedData::Floats(numbers)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read_with_and_without_padding_and_nothing_else_is() {
        for (text, bytes) in
            [("", &b""[..]), ("Zg==", b"f"), ("Zm8", b"fo"), ("Zm9v", b"foo"), ("-_-_", &[251, 255, 191])]
        {
            assert_eq!(base64(text).as_deref(), Some(bytes), "{text:?}");
        }
        for wrong in ["Z", "Zm9vY", "Zm 9v", "Zm9v!", "ü"] {
            assert_eq!(base64(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn nested_and_flat_arrays_are_the_same_tensor() {
        let read = |data: &str| {
            let json = format!(r#"{{"inputs":[{{"name":"images","datatype":"FP32","shape":[2,2],"data":{data}}}]}}"#);
            read_request(&json.into_bytes().into(), None).map(|request| request.request.inputs)
        };
        let flat = read("[1,2.5,-3,4e-3]").map_err(|refusal| refusal.text);
        assert_eq!(flat, read("[[1,2.5],[-3,4e-3]]").map_err(|refusal| refusal.text));
        assert!(flat.is_ok());
        for wrong in ["[1,2,3]", "[1,2,3,4,5]", "[1,2,3,\"4\"]", "[1,2,3,NaN]", "[1,2,3,null]", "[1,2,3,1e300]"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert!(read(&"[".repeat(100_000)).is_err(), "deep arrays end in an error, not in a stack overflow");
    }
}
