//! A web server that misbehaves on demand, on a port of its own.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What was requested.
#[derive(Debug, Clone)]
pub struct Request {
    /// The verb.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Names in lower case.
    pub headers: HashMap<String, String>,
    /// What was sent.
    pub body: Vec<u8>,
}

/// What is sent back. `cut` ends the connection after so many bytes of the body.
pub struct HttpResponse {
    /// The status.
    pub status: u16,
    /// Headers beside the length.
    pub headers: Vec<(&'static str, String)>,
    /// The whole body.
    pub body: Vec<u8>,
    /// Bytes of the body that are sent.
    pub cut: Option<usize>,
}

impl HttpResponse {
    /// An empty one.
    pub fn status(status: u16) -> HttpResponse {
        HttpResponse { status, headers: Vec::new(), body: Vec::new(), cut: None }
    }

    /// All is well.
    pub fn whole(body: &[u8]) -> HttpResponse {
        HttpResponse { body: body.to_vec(), ..HttpResponse::status(200) }
    }

    /// What a well-behaved server returns for a request with or without a range.
    pub fn of(body: &[u8], request: &Request) -> HttpResponse {
        let start = request.headers.get("range").and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-'));
        match start.map(|start| start.parse::<usize>().unwrap()) {
            Some(start) if start >= body.len() => HttpResponse::status(416),
            Some(start) => {
                let range = format!("bytes {start}-{}/{}", body.len() - 1, body.len());
                HttpResponse::whole(&body[start..]).with("content-range", range).with_status(206)
            }
            None => HttpResponse::whole(body),
        }
    }

    /// With one more header.
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> HttpResponse {
        self.headers.push((name, value.into()));
        self
    }

    /// With another status.
    pub fn with_status(mut self, status: u16) -> HttpResponse {
        self.status = status;
        self
    }

    /// The connection ends after so many bytes of the body.
    pub fn cut_after(mut self, bytes: usize) -> HttpResponse {
        self.cut = Some(bytes);
        self
    }
}

/// What an object store returns whose only bucket is called `bucket`; its objects are changed as the request wants.
pub fn object_store(objects: &mut BTreeMap<String, Vec<u8>>, request: &Request) -> HttpResponse {
    let plain = |text: &str| text.replace("%2F", "/").replace("%20", " ");
    let path = request.target.strip_prefix("/bucket/").unwrap();
    if let Some(query) = path.strip_prefix('?') {
        let prefix = query.split('&').find_map(|pair| pair.strip_prefix("prefix=")).unwrap_or_default();
        let listed = objects.iter().filter(|(key, _)| key.starts_with(&plain(prefix)));
        let contents: String = listed
            .map(|(key, content)| {
                let size = content.len();
                format!("<Contents><Key>{key}</Key><ETag>&quot;1&quot;</ETag><Size>{size}</Size></Contents>")
            })
            .collect();
        let text = format!("<ListBucketResult>{contents}<IsTruncated>false</IsTruncated></ListBucketResult>");
        return HttpResponse::whole(text.as_bytes());
    }
    match request.method.as_str() {
        "PUT" if request.headers.contains_key("if-none-match") && objects.contains_key(&plain(path)) => {
            HttpResponse::status(412)
        }
        "PUT" => {
            objects.insert(plain(path), request.body.clone());
            HttpResponse::status(200)
        }
        "DELETE" => {
            objects.remove(&plain(path));
            HttpResponse::status(204)
        }
        _ => match objects.get(&plain(path)) {
            Some(content) => HttpResponse::of(content, request),
            None => HttpResponse::status(404),
        },
    }
}

/// A server on a port of its own.
pub struct Server {
    /// Where it is, as `http://…`.
    pub address: String,
    seen: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// Responds to every request by the function, which also gets the request's number. It runs until the test ends.
    pub fn start(respond: impl Fn(usize, &Request) -> HttpResponse + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (requests, respond) = (seen.clone(), Arc::new(respond));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (requests, respond) = (requests.clone(), respond.clone());
                std::thread::spawn(move || serve(stream.unwrap(), &requests, &*respond));
            }
        });
        Server { address, seen }
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.seen.lock().unwrap().clone()
    }

    /// The methods, targets and ranges of all requests so far.
    pub fn log(&self) -> Vec<String> {
        let line = |request: &Request| {
            let range = request.headers.get("range").map(|range| format!(" {range}")).unwrap_or_default();
            format!("{} {}{range}", request.method, request.target)
        };
        self.requests().iter().map(line).collect()
    }
}

fn serve(
    mut stream: TcpStream,
    seen: &Mutex<Vec<Request>>,
    respond: &(dyn Fn(usize, &Request) -> HttpResponse + Sync),
) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut lines = reader.by_ref().lines();
    let Some(Ok(first)) = lines.next() else { return };
    let mut words = first.split(' ');
    let (method, target) = (words.next().unwrap().to_string(), words.next().unwrap().to_string());
    let headers = lines.map_while(Result::ok).take_while(|line| !line.is_empty());
    let headers =
        headers.filter_map(|line| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_string())));
    let headers: HashMap<String, String> = headers.collect();
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    if reader.read_exact(&mut body).is_err() {
        // The client broke off: what it wanted to send is no request.
        return;
    }
    let request = Request { method, target, headers, body };
    let number = {
        let mut seen = seen.lock().unwrap();
        seen.push(request.clone());
        seen.len() - 1
    };
    let response = respond(number, &request);
    let mut head =
        format!("HTTP/1.1 {} x\r\ncontent-length: {}\r\nconnection: close\r\n", response.status, response.body.len());
    response.headers.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
    let body =
        if request.method == "HEAD" { &[][..] } else { &response.body[..response.cut.unwrap_or(response.body.len())] };
    // The client may have gone, which is its right.
    let _ = stream.write_all(format!("{head}\r\n").as_bytes()).and_then(|()| stream.write_all(body));
}
