//! What a request may look like at all, and what every answer says to the browser.
//!
//! Loopback alone does not keep other web sites out: a name that they own can be made to point at 127.0.0.1. So requests
//! must name this server by an address that is on a list, with its port; must not come from a page of another origin; and
//! on addresses that others can reach must carry a token.

use crate::server::host_of;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::SocketAddr;
use std::sync::Arc;

const LONGEST_URI: usize = 8192;
/// The one address that changes something, on boards that allow it.
pub(crate) const EDITED: &str = "/api/notes";
/// How much it may be sent.
pub(crate) const LARGEST_EDIT: usize = 64 << 10;
const COOKIE: &str = "octant-board";

/// The address of this machine that a connection was made to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reached(pub SocketAddr);

/// Who may ask.
#[derive(Debug, Clone)]
pub struct Access {
    /// `host:port` as a browser writes it.
    hosts: Vec<String>,
    token: Option<String>,
    /// Notes and tags of runs may be changed.
    edits: bool,
}

impl Access {
    /// For a server at that address. `names` are further names by which browsers reach it.
    pub fn new(address: SocketAddr, names: &[String], token: Option<String>) -> Access {
        let port = address.port();
        let mut hosts: Vec<String> = Vec::new();
        let mut add = |host: &str| {
            hosts.push(format!("{host}:{port}"));
            if port == 80 {
                hosts.push(host.to_string());
            }
        };
        ["localhost", "127.0.0.1", "[::1]"].into_iter().for_each(&mut add);
        names.iter().map(|name| name.to_ascii_lowercase()).for_each(|name| add(&name));
        if !address.ip().is_unspecified() && !address.ip().is_loopback() {
            add(&host_of(address.ip()));
        }
        Access { hosts, token, edits: false }
    }

    /// Lets pages of this server change notes and tags.
    pub fn editable(self, edits: bool) -> Access {
        Access { edits, ..self }
    }

    /// Whether a browser may call this server that. A server on all addresses of a machine cannot list them ahead, but
    /// every connection knows to which one it was made; a name that somebody else owns never equals a number.
    pub(crate) fn allows_host(&self, host: &str, reached: Option<Reached>) -> bool {
        let is_own = |Reached(address): Reached| {
            let own = host_of(address.ip().to_canonical());
            host == format!("{own}:{}", address.port()) || (address.port() == 80 && host == own)
        };
        self.hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(host)) || reached.is_some_and(is_own)
    }

    fn check(&self, request: &Request) -> Result<(), (StatusCode, &'static str)> {
        let headers = request.headers();
        let uri = request.uri();
        let reached = request.extensions().get::<Reached>().copied();
        let is_edit = self.edits && request.method() == Method::POST && uri.path() == EDITED;
        if !is_edit && ![Method::GET, Method::HEAD].contains(request.method()) {
            return Err((StatusCode::METHOD_NOT_ALLOWED, "the board only answers GET: it changes nothing"));
        }
        if uri.to_string().len() > LONGEST_URI {
            return Err((StatusCode::URI_TOO_LONG, "the address is too long"));
        }
        let mut hosts = headers.get_all(header::HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok()).unwrap_or_default();
        if hosts.next().is_some()
            || !self.allows_host(host, reached)
            || uri.authority().is_some_and(|name| name.as_str() != host)
        {
            return Err((
                StatusCode::FORBIDDEN,
                "this server is not reached by that name; start the board with --name and the name to allow it",
            ));
        }
        if !self.is_own_origin(headers, reached) {
            return Err((StatusCode::FORBIDDEN, "pages of other origins may not ask"));
        }
        if is_edit && !headers.contains_key(header::ORIGIN) {
            return Err((StatusCode::FORBIDDEN, "changes come from the board's own page"));
        }
        let length = headers.get(header::CONTENT_LENGTH).map(|length| length.to_str().ok()?.parse::<usize>().ok());
        let most = if is_edit { LARGEST_EDIT } else { 0 };
        let is_too_long = length.is_some_and(|length| length.is_none_or(|length| length > most));
        if is_too_long || headers.contains_key(header::TRANSFER_ENCODING) {
            return Err((StatusCode::PAYLOAD_TOO_LARGE, "the request's body is larger than the board takes"));
        }
        // No address of the board needs an encoded letter, a dot between two slashes or a backslash.
        let path = uri.path();
        if path.contains(['%', '\\', ':', '\0']) || path.contains("..") || path.contains("//") || path.contains("/./") {
            return Err((StatusCode::BAD_REQUEST, "there is no such address"));
        }
        Ok(())
    }

    fn is_own_origin(&self, headers: &HeaderMap, reached: Option<Reached>) -> bool {
        let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
        if let Some(origin) = text(header::ORIGIN) {
            return origin.strip_prefix("http://").is_some_and(|host| self.allows_host(host, reached));
        }
        // A link from elsewhere may open a page; scripts and images of elsewhere get nothing.
        match text(HeaderName::from_static("sec-fetch-site")) {
            None | Some("same-origin" | "none") => true,
            Some(_) => {
                text(HeaderName::from_static("sec-fetch-mode")) == Some("navigate")
                    && text(HeaderName::from_static("sec-fetch-dest")) == Some("document")
            }
        }
    }

    /// `Ok(true)` when the token came with the address and should become a cookie.
    fn check_token(&self, request: &Request) -> Result<bool, ()> {
        let Some(token) = &self.token else { return Ok(false) };
        let cookies = request.headers().get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut given =
            cookies.flat_map(|cookies| cookies.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
        if given.any(|(name, value)| name == COOKIE && is_same(value, token)) {
            return Ok(false);
        }
        let bearer = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        if bearer.and_then(|value| value.strip_prefix("Bearer ")).is_some_and(|value| is_same(value, token)) {
            return Ok(false);
        }
        let query = request.uri().query().unwrap_or_default();
        match query.split('&').filter_map(|pair| pair.strip_prefix("token=")).any(|value| is_same(value, token)) {
            true => Ok(true),
            false => Err(()),
        }
    }
}

/// Compares without telling by its duration how much agrees.
fn is_same(given: &str, token: &str) -> bool {
    given.len() == token.len() && given.bytes().zip(token.bytes()).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}

/// Refuses what is not for this server; adds the headers that keep a page from reaching out or being framed.
pub(crate) async fn guard(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    let mut response = match access.check(&request) {
        Err(refusal) => refusal.into_response(),
        Ok(()) => match access.check_token(&request) {
            Err(()) => {
                (StatusCode::UNAUTHORIZED, "open the address with the token that the board printed").into_response()
            }
            Ok(true) => keep_token(&access),
            Ok(false) => next.run(request).await,
        },
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    response
}

const HEADERS: [(&str, &str); 8] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("x-frame-options", "DENY"),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("permissions-policy", "camera=(), microphone=(), geolocation=()"),
    ("cache-control", "no-store"),
];

/// The token moves from the address, where it would be seen, into a cookie that scripts cannot read.
fn keep_token(access: &Access) -> Response {
    let token = access.token.as_deref().unwrap_or_default();
    let cookie = format!("{COOKIE}={token}; HttpOnly; SameSite=Strict; Path=/");
    let response = Response::builder()
        .status(StatusCode::SEE_OTHER)
        .header(header::LOCATION, "/")
        .header(header::SET_COOKIE, cookie)
        .body(Body::empty());
    response.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}

/// A token that cannot be guessed.
pub(crate) fn new_token() -> String {
    use std::hash::{BuildHasher, RandomState};
    // Each state is seeded from the system's random numbers.
    (0..3).map(|index| format!("{:016x}", RandomState::new().hash_one(index))).collect()
}
