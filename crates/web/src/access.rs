//! Which requests a server looks at all, and what every response tells a browser.
//!
//! Loopback alone does not keep other web sites out: a name that they own can be made to point at 127.0.0.1. So requests
//! must name this server by an address that is on a list, with its port; must not come from a page of another origin; and
//! on addresses that others can reach must carry a token.

use crate::endpoint::host_of;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::{Router, middleware};
use std::net::SocketAddr;
use std::sync::Arc;

const LONGEST_URI: usize = 8192;

/// The address of this machine that a connection was made to.
#[derive(Debug, Clone, Copy)]
pub struct Reached(pub SocketAddr);

/// Requests that a server takes besides GET and HEAD, which have no body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Posts {
    /// None.
    Never,
    /// From this server's own page, to one address, with a body of at most so many bytes.
    FromPage(&'static str, usize),
    /// From any client with access; the reader of a body limits it.
    FromClients,
}

/// Who may send requests.
#[derive(Debug, Clone)]
pub struct Access {
    /// `host:port` as a browser writes it.
    hosts: Vec<String>,
    /// Names that were given, which a proxy with TLS may serve on its own port.
    names: Vec<String>,
    token: Option<String>,
    /// What browsers keep the token in.
    cookie: &'static str,
    posts: Posts,
    /// Paths that need no token.
    open: &'static [&'static str],
}

impl Access {
    /// For a server at that address. `names` are further names by which clients reach it. A browser keeps the token in the
    /// cookie.
    pub fn new(address: SocketAddr, names: &[String], token: Option<String>, cookie: &'static str) -> Access {
        let port = address.port();
        let mut hosts: Vec<String> = Vec::new();
        let mut add = |host: &str| {
            hosts.push(format!("{host}:{port}"));
            if port == 80 {
                hosts.push(host.to_string());
            }
        };
        ["localhost", "127.0.0.1", "[::1]"].into_iter().for_each(&mut add);
        let names: Vec<String> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
        names.iter().for_each(|name| add(name));
        if !address.ip().is_unspecified() && !address.ip().is_loopback() {
            add(&host_of(address.ip()));
        }
        Access { hosts, names, token, cookie, posts: Posts::Never, open: &[] }
    }

    /// Takes requests with bodies.
    pub fn with_posts(self, posts: Posts) -> Access {
        Access { posts, ..self }
    }

    /// Paths that need no token, such as those that tell whether the server lives.
    pub fn with_open(self, open: &'static [&'static str]) -> Access {
        Access { open, ..self }
    }

    /// Puts this in front of all routes.
    pub fn guard(self, router: Router) -> Router {
        router.layer(middleware::from_fn_with_state(Arc::new(self), guard))
    }

    /// Whether a browser may call this server that. A server on all addresses of a machine cannot list them ahead, but
    /// every connection knows to which one it was made; a name that somebody else owns never equals a number.
    fn allows_host(&self, host: &str, reached: Option<Reached>) -> bool {
        let is_own = |Reached(address): Reached| {
            let own = host_of(address.ip().to_canonical());
            host == format!("{own}:{}", address.port()) || (address.port() == 80 && host == own)
        };
        let is_listed = |list: &[String]| list.iter().any(|allowed| allowed.eq_ignore_ascii_case(host));
        is_listed(&self.hosts) || is_listed(&self.names) || reached.is_some_and(is_own)
    }

    fn check(&self, request: &Request) -> Result<(), (StatusCode, &'static str)> {
        let headers = request.headers();
        let uri = request.uri();
        let reached = request.extensions().get::<Reached>().copied();
        let is_post = request.method() == Method::POST;
        let (may_post, most) = match self.posts {
            Posts::Never => (false, 0),
            Posts::FromPage(path, most) if is_post && uri.path() == path => (true, most),
            Posts::FromPage(..) => (false, 0),
            Posts::FromClients if is_post => (true, usize::MAX),
            Posts::FromClients => (false, 0),
        };
        if !may_post && ![Method::GET, Method::HEAD].contains(request.method()) {
            return Err((StatusCode::METHOD_NOT_ALLOWED, "this address only responds to GET"));
        }
        if uri.to_string().len() > LONGEST_URI {
            return Err((StatusCode::URI_TOO_LONG, "the address is too long"));
        }
        let mut hosts = headers.get_all(header::HOST).iter();
        // HTTP/2 has the name in the address instead.
        let named = hosts.next().map(|host| host.to_str().unwrap_or_default());
        let host = named.or(uri.authority().map(|name| name.as_str())).unwrap_or_default();
        if hosts.next().is_some()
            || !self.allows_host(host, reached)
            || uri.authority().is_some_and(|name| name.as_str() != host)
        {
            return Err((
                StatusCode::FORBIDDEN,
                "this server is not reached by that name; start it with --name and the name to allow it",
            ));
        }
        if !self.is_own_origin(headers, reached) {
            return Err((StatusCode::FORBIDDEN, "pages of other origins may not send requests"));
        }
        if may_post && matches!(self.posts, Posts::FromPage(..)) && !headers.contains_key(header::ORIGIN) {
            return Err((StatusCode::FORBIDDEN, "changes come from this server's own page"));
        }
        let length = headers.get(header::CONTENT_LENGTH).map(|length| length.to_str().ok()?.parse::<usize>().ok());
        let is_too_long = length.is_some_and(|length| length.is_none_or(|length| length > most));
        if is_too_long || (most < usize::MAX && headers.contains_key(header::TRANSFER_ENCODING)) {
            return Err((StatusCode::PAYLOAD_TOO_LARGE, "the request's body is larger than this address takes"));
        }
        // No address here needs an encoded letter, a dot between two slashes or a backslash.
        let path = uri.path();
        if path.contains(['%', '\\', ':', '\0']) || path.contains("..") || path.contains("//") || path.contains("/./") {
            return Err((StatusCode::BAD_REQUEST, "there is no such address"));
        }
        Ok(())
    }

    fn is_own_origin(&self, headers: &HeaderMap, reached: Option<Reached>) -> bool {
        let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
        if let Some(origin) = text(header::ORIGIN) {
            // Only a proxy has TLS, and it serves one of the names.
            let secure = origin.strip_prefix("https://").map(|host| self.names.iter().any(|name| name == host));
            let plain = origin.strip_prefix("http://").map(|host| self.allows_host(host, reached));
            return secure.or(plain).unwrap_or(false);
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
        if self.open.contains(&request.uri().path()) {
            return Ok(false);
        }
        let cookies = request.headers().get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut given =
            cookies.flat_map(|cookies| cookies.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
        if given.any(|(name, value)| name == self.cookie && is_same(value, token)) {
            return Ok(false);
        }
        let bearer = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        if bearer.and_then(|value| value.strip_prefix("Bearer ")).is_some_and(|value| is_same(value, token)) {
            return Ok(false);
        }
        let query = request.uri().query().unwrap_or_default();
        match query.split('&').filter_map(|pair| pair.strip_prefix("token=")).any(|value| is_same(value, token)) {
            // A page is opened again without it; a client that posts continues its request.
            true => Ok(request.method() == Method::GET),
            false => Err(()),
        }
    }
}

/// Compares without telling by its duration how much agrees.
fn is_same(given: &str, token: &str) -> bool {
    given.len() == token.len() && given.bytes().zip(token.bytes()).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}

/// Refuses what is not for this server; adds the headers that keep a page from reaching out or being framed.
async fn guard(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    let mut response = match access.check(&request) {
        Err(refusal) => refusal.into_response(),
        Ok(()) => match access.check_token(&request) {
            Err(()) => {
                let text = "open the address with the token that was printed, or send `Authorization: Bearer TOKEN`";
                (StatusCode::UNAUTHORIZED, text).into_response()
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
    let cookie = format!("{}={token}; HttpOnly; SameSite=Strict; Path=/", access.cookie);
    let response = Response::builder()
        .status(StatusCode::SEE_OTHER)
        .header(header::LOCATION, "/")
        .header(header::SET_COOKIE, cookie)
        .body(Body::empty());
    response.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}

/// A token that cannot be guessed.
pub fn new_token() -> String {
    use std::hash::{BuildHasher, RandomState};
    // Each state is seeded from the system's random numbers.
    (0..3).map(|index| format!("{:016x}", RandomState::new().hash_one(index))).collect()
}
