//! The objects of a bucket under a prefix, from its listing responses.

use crate::bucket::Endpoint;
use crate::http::Failure;
use ureq::Agent;

/// One object of a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Object {
    pub key: String,
    pub bytes: u64,
    /// Changes when the content does.
    pub version: String,
}

/// All objects under a prefix, whatever the number of pages.
pub(crate) fn objects(agent: &Agent, endpoint: &Endpoint, prefix: &str) -> Result<Vec<Object>, Failure> {
    let mut objects = Vec::new();
    let mut continuation = None;
    loop {
        let mut response = endpoint.listing(prefix, continuation.as_deref()).get(agent, &[])?;
        let text = response.body_mut().read_to_string().map_err(|error| Failure::Broken(error.to_string()))?;
        let page =
            Page::parse(&text).ok_or_else(|| Failure::Broken("the response is not the listing of a bucket".into()))?;
        objects.extend(page.objects);
        match page.continuation {
            Some(token) if continuation.as_ref() != Some(&token) => continuation = Some(token),
            _ => return Ok(objects),
        }
    }
}

struct Page {
    objects: Vec<Object>,
    continuation: Option<String>,
}

impl Page {
    /// The format is rigid enough to be read without a general parser: elements without attributes, never nested in
    /// elements of their own name.
    fn parse(text: &str) -> Option<Page> {
        let (_, text) = text.split_once("<ListBucketResult")?;
        let objects = text.split("<Contents>").skip(1).map(|rest| {
            let object = rest.split("</Contents>").next()?;
            Some(Object {
                key: element(object, "Key")?,
                bytes: element(object, "Size")?.parse().ok()?,
                version: element(object, "ETag").or_else(|| element(object, "LastModified"))?,
            })
        });
        let objects = objects.collect::<Option<Vec<Object>>>()?;
        let is_last = element(text, "IsTruncated").as_deref() != Some("true");
        Some(Page { objects, continuation: element(text, "NextContinuationToken").filter(|_| !is_last) })
    }
}

fn element(text: &str, name: &str) -> Option<String> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    let (content, _) = rest.split_once(&format!("</{name}>"))?;
    Some(unescaped(content))
}

/// Text without the entities of HTML and XML.
pub(crate) fn unescaped(text: &str) -> String {
    let mut parts = text.split('&');
    let mut result = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let (entity, rest) = part.split_once(';').unwrap_or(("", part));
        let number = |digits: &str, radix| u32::from_str_radix(digits, radix).ok().and_then(char::from_u32);
        let character = match entity {
            "amp" => Some('&'),
            "lt" => Some('<'),
            "gt" => Some('>'),
            "quot" => Some('"'),
            "apos" => Some('\''),
            _ => match entity.strip_prefix('#') {
                Some(digits) => digits.strip_prefix('x').map_or_else(|| number(digits, 10), |hex| number(hex, 16)),
                None => None,
            },
        };
        result.extend(character);
        result.push_str(rest);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read() {
        let text = "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"x\"><IsTruncated>true</IsTruncated>\
            <Contents><Key>a &amp; b&#33;.txt</Key><ETag>&quot;1&quot;</ETag><Size>3</Size></Contents>\
            <NextContinuationToken>t/1=</NextContinuationToken></ListBucketResult>";
        let page = Page::parse(text).unwrap();
        assert_eq!(page.objects, [Object { key: "a & b!.txt".into(), bytes: 3, version: "\"1\"".into() }]);
        assert_eq!(page.continuation.as_deref(), Some("t/1="));
        assert!(Page::parse("<html>no</html>").is_none());
    }
}
