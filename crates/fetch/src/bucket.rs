//! Buckets of object stores: their addresses and credentials. S3 and Google's store understand the same listing request,
//! so that one reader serves both.

use crate::credentials::{AccessKey, Credentials};
use crate::http::Remote;
use std::env;

/// Whose store it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Provider {
    S3,
    Google,
}

impl Provider {
    pub fn scheme(self) -> &'static str {
        match self {
            Provider::S3 => "s3",
            Provider::Google => "gs",
        }
    }
}

/// Where a bucket receives requests for objects.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    /// Ends before the key, with a slash.
    base: String,
    credentials: Credentials,
    provider: Provider,
}

/// The first of these variables that is set and not empty.
fn setting(names: &[&str]) -> Option<String> {
    names.iter().filter_map(|name| env::var(name).ok()).find(|value| !value.is_empty())
}

impl Endpoint {
    /// From the environment, by the names that the providers' own tools read.
    pub fn of(provider: Provider, bucket: &str) -> Endpoint {
        match provider {
            Provider::S3 => Endpoint::s3(bucket),
            Provider::Google => Endpoint::google(bucket),
        }
    }

    fn s3(bucket: &str) -> Endpoint {
        let region = setting(&["AWS_REGION", "AWS_DEFAULT_REGION"]).unwrap_or_else(|| "us-east-1".into());
        let base = match setting(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]) {
            Some(endpoint) => format!("{}/{bucket}/", endpoint.trim_end_matches('/')),
            // A bucket with dots in its name is no host that a certificate covers.
            None if bucket.contains('.') => format!("https://s3.{region}.amazonaws.com/{bucket}/"),
            None => format!("https://{bucket}.s3.{region}.amazonaws.com/"),
        };
        let key = setting(&["AWS_ACCESS_KEY_ID"]).zip(setting(&["AWS_SECRET_ACCESS_KEY"]));
        let credentials = key.map_or(Credentials::Anonymous, |(id, secret)| {
            Credentials::Key(AccessKey { id, secret, session: setting(&["AWS_SESSION_TOKEN"]), region })
        });
        Endpoint { base, credentials, provider: Provider::S3 }
    }

    fn google(bucket: &str) -> Endpoint {
        let endpoint = setting(&["STORAGE_EMULATOR_HOST"]).unwrap_or_else(|| "https://storage.googleapis.com".into());
        let token = setting(&["GOOGLE_OAUTH_ACCESS_TOKEN", "CLOUDSDK_AUTH_ACCESS_TOKEN"]);
        let credentials = token.map_or(Credentials::Anonymous, Credentials::Bearer);
        let base = format!("{}/{bucket}/", endpoint.trim_end_matches('/'));
        Endpoint { base, credentials, provider: Provider::Google }
    }

    /// The header of a request that stores an object only where there is none of that name.
    pub fn if_new(&self) -> (&'static str, &'static str) {
        match self.provider {
            Provider::S3 => ("if-none-match", "*"),
            Provider::Google => ("x-goog-if-generation-match", "0"),
        }
    }

    pub fn object(&self, key: &str) -> Remote {
        Remote { url: format!("{}{}", self.base, encoded(key, true)), credentials: self.credentials.clone() }
    }

    /// The next page of the objects under a prefix. The query is in the order that signatures demand.
    pub fn listing(&self, prefix: &str, continuation: Option<&str>) -> Remote {
        let continuation =
            continuation.map(|token| format!("continuation-token={}&", encoded(token, false))).unwrap_or_default();
        let query = format!("{continuation}list-type=2&prefix={}", encoded(prefix, false));
        Remote { url: format!("{}?{query}", self.base), credentials: self.credentials.clone() }
    }
}

/// Percent-encoding as signatures demand it: everything but letters, digits and `-._~`.
fn encoded(text: &str, keeps_slashes: bool) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || (keeps_slashes && byte == b'/');
    text.bytes().map(|byte| if plain(byte) { (byte as char).to_string() } else { format!("%{byte:02X}") }).collect()
}
