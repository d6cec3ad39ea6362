//! Credentials of requests: none, a token, or a key that signs (AWS Signature Version 4).

use crate::checksum::hexadecimal;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// How a request authenticates.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Credentials {
    Anonymous,
    Bearer(String),
    Key(AccessKey),
}

/// An access key of an S3 cache.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct AccessKey {
    pub id: String,
    pub secret: String,
    pub session: Option<String>,
    pub region: String,
}

/// Secrets are never printed.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Credentials::Anonymous => "anonymous",
            Credentials::Bearer(_) => "a token",
            Credentials::Key(_) => "a key",
        })
    }
}

impl Credentials {
    /// The authentication headers for a request that is made now, with the SHA-256 of its body.
    pub fn headers(&self, method: &str, url: &str, body_hash: &str) -> Vec<(&'static str, String)> {
        match self {
            Credentials::Anonymous => Vec::new(),
            Credentials::Bearer(token) => vec![("authorization", format!("Bearer {token}"))],
            Credentials::Key(key) => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                key.sign(method, url, body_hash, now.as_secs(), &[])
            }
        }
    }
}

impl AccessKey {
    /// The headers of a request whose body has that SHA-256, signed as Signature Version 4 demands: a canonical text of the request
    /// is hashed, the hash is signed with a key that holds for one day, region and service. `url` must be
    /// percent-encoded as in that text, with its query in order, so that the text can be taken from it as it is.
    fn sign(
        &self,
        method: &str,
        url: &str,
        body_hash: &str,
        seconds: u64,
        more: &[(&str, &str)],
    ) -> Vec<(&'static str, String)> {
        const ALGORITHM: &str = "AWS4-HMAC-SHA256";
        let (day, time) = utc_stamp(seconds);
        let without_scheme = url.split_once("://").map_or(url, |(_, rest)| rest);
        let (host, path) = without_scheme.split_once('/').unwrap_or((without_scheme, ""));
        let (path, query) = path.split_once('?').unwrap_or((path, ""));

        let mut headers = vec![("host", host), ("x-amz-content-sha256", body_hash), ("x-amz-date", &time)];
        headers.extend(self.session.as_deref().map(|session| ("x-amz-security-token", session)));
        headers.extend(more);
        headers.sort();
        let signed_names = headers.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
        let header_lines: String = headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        let canonical_request = format!("{method}\n/{path}\n{query}\n{header_lines}\n{signed_names}\n{body_hash}");

        let scope = format!("{day}/{}/s3/aws4_request", self.region);
        let request_hash = hexadecimal(&Sha256::digest(canonical_request.as_bytes()));
        let text_to_sign = format!("{ALGORITHM}\n{time}\n{scope}\n{request_hash}");
        let secret = format!("AWS4{}", self.secret).into_bytes();
        let signing_key =
            [day.as_str(), &self.region, "s3", "aws4_request"].iter().fold(secret, |key, part| hmac(&key, part));
        let signature = hexadecimal(&hmac(&signing_key, &text_to_sign));

        let credential = format!("{}/{scope}", self.id);
        let authorization =
            format!("{ALGORITHM} Credential={credential},SignedHeaders={signed_names},Signature={signature}");
        let mut result = vec![
            ("authorization", authorization),
            ("x-amz-content-sha256", body_hash.to_string()),
            ("x-amz-date", time),
        ];
        result.extend(self.session.clone().map(|session| ("x-amz-security-token", session)));
        result
    }
}

/// The SHA-256 of a body that is not there.
pub(crate) fn empty_body() -> String {
    hexadecimal(&Sha256::digest(b""))
}

fn hmac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key may have any length");
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

/// Seconds since 1970 as `20130524` and `20130524T000000Z`.
pub fn utc_stamp(seconds: u64) -> (String, String) {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Years that begin in March have their leap day at the end, so that months follow from a formula.
    let day = days + 719_468;
    let (era, day_of_era) = (day / 146_097, day % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = 400 * era + year_of_era + u64::from(month <= 2);
    let date = format!("{year:04}{month:02}{day:02}");
    let time = format!("{date}T{:02}{:02}{:02}Z", rest / 3600, rest / 60 % 60, rest % 60);
    (date, time)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples in Amazon's documentation of the signature.
    #[test]
    fn signatures_are_those_of_the_documentation() {
        let key = AccessKey {
            id: "AKIAIOSFODNN7EXAMPLE".into(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into(),
            session: None,
            region: "us-east-1".into(),
        };
        let signature = |method: &str, path: &str, body: &str, more: &[(&str, &str)]| {
            let url = format!("https://examplebucket.s3.amazonaws.com/{path}");
            let body_hash = hexadecimal(&Sha256::digest(body.as_bytes()));
            let headers = key.sign(method, &url, &body_hash, 1_369_353_600, more);
            headers[0].1.rsplit_once("Signature=").map(|(_, signature)| signature.to_string())
        };
        assert_eq!(
            signature("GET", "test.txt", "", &[("range", "bytes=0-9")]).as_deref(),
            Some("f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41")
        );
        assert_eq!(
            signature("GET", "?max-keys=2&prefix=J", "", &[]).as_deref(),
            Some("34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7")
        );
        let more = [("date", "Fri, 24 May 2013 00:00:00 GMT"), ("x-amz-storage-class", "REDUCED_REDUNDANCY")];
        assert_eq!(
            signature("PUT", "test%24file.text", "Welcome to Amazon S3.", &more).as_deref(),
            Some("98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd")
        );
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "19700101T000000Z"),
            (951_782_400, "20000229T000000Z"),
            (1_709_251_199, "20240229T235959Z"),
            (1_735_689_599, "20241231T235959Z"),
            (4_107_542_400, "21000301T000000Z"),
        ] {
            assert_eq!(utc_stamp(seconds).1, expected);
        }
    }
}
