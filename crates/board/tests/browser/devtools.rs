//! A browser driven over its DevTools protocol: one page, its errors, its requests.

use serde_json::{Value, json};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tungstenite::{Message, WebSocket};

pub struct Browser {
    child: Child,
    socket: WebSocket<TcpStream>,
    session: String,
    next: u64,
    /// What the page complained about.
    pub errors: Vec<String>,
    /// Every address that was requested.
    pub requests: Vec<String>,
    _profile: tempfile::TempDir,
}

const PATIENCE: Duration = Duration::from_secs(60);

impl Browser {
    pub fn start(program: &OsStr) -> Browser {
        let profile = tempfile::tempdir().unwrap();
        let mut child = Command::new(program)
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--remote-debugging-port=0",
            ])
            .args([
                "--no-first-run",
                "--disable-background-networking",
                "--hide-scrollbars",
                "--force-color-profile=srgb",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = loop {
            let line = lines.next().expect("the browser says where it listens").unwrap();
            if let Some(address) = line.strip_prefix("DevTools listening on ") {
                break address.to_string();
            }
        };
        // A program whose output is not read blocks in the end.
        std::thread::spawn(move || lines.for_each(drop));
        let host = address.trim_start_matches("ws://").split('/').next().unwrap();
        let stream = TcpStream::connect(host).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let (socket, _) = tungstenite::client(&address, stream).unwrap();
        let mut browser = Browser {
            child,
            socket,
            session: String::new(),
            next: 0,
            errors: vec![],
            requests: vec![],
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attached =
            browser.call("Target.attachToTarget", json!({ "targetId": target["targetId"], "flatten": true }));
        browser.session = attached["sessionId"].as_str().unwrap().to_string();
        for domain in ["Page.enable", "Runtime.enable", "Network.enable", "Log.enable"] {
            browser.call(domain, json!({}));
        }
        browser
    }

    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let mut message = json!({ "id": self.next, "method": method, "params": params });
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.socket.send(Message::text(message.to_string())).unwrap();
        loop {
            let message = self.socket.read().unwrap_or_else(|error| panic!("{method}: {error}"));
            let Message::Text(text) = message else { continue };
            let message: Value = serde_json::from_str(&text).unwrap();
            if message["id"] == json!(self.next) {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
            self.note(&message);
        }
    }

    fn note(&mut self, message: &Value) {
        let params = &message["params"];
        match message["method"].as_str().unwrap_or_default() {
            "Runtime.exceptionThrown" => {
                self.errors.push(params["exceptionDetails"]["exception"]["description"].to_string())
            }
            "Runtime.consoleAPICalled" if params["type"] == "error" => self.errors.push(params["args"].to_string()),
            "Log.entryAdded" if params["entry"]["level"] == "error" => self.errors.push(params["entry"].to_string()),
            "Network.requestWillBeSent" => {
                self.requests.extend(params["request"]["url"].as_str().map(str::to_string));
            }
            _ => {}
        }
    }

    /// The value of an expression in the page; promises are waited for.
    pub fn eval(&mut self, script: &str) -> Value {
        let params = json!({ "expression": script, "awaitPromise": true, "returnByValue": true });
        let result = self.call("Runtime.evaluate", params);
        assert!(result["exceptionDetails"].is_null(), "{script}: {}", result["exceptionDetails"]);
        result["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub fn wait(&mut self, what: &str, script: &str) -> Duration {
        let begun = Instant::now();
        while self.eval(&format!("Boolean({script})")) != json!(true) {
            let text = self.eval("document.body.innerText.slice(0, 1500)");
            assert!(
                begun.elapsed() < PATIENCE,
                "{what}: {script} stayed false; errors {:?}; the page says {text}",
                self.errors
            );
            std::thread::sleep(Duration::from_millis(30));
        }
        begun.elapsed()
    }

    pub fn size(&mut self, width: u32, height: u32) {
        let mobile = width < 600;
        let params = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile });
        self.call("Emulation.setDeviceMetricsOverride", params);
    }

    pub fn prefer(&mut self, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    pub fn open(&mut self, url: &str) {
        // The same page with another part after # would not load anew.
        self.call("Page.navigate", json!({ "url": "about:blank" }));
        self.call("Page.navigate", json!({ "url": url }));
        self.wait("the page", "document.readyState === 'complete' && document.querySelector('#tabs a')");
    }

    pub fn mouse(&mut self, kind: &str, x: f64, y: f64, modifiers: u32) {
        let (button, buttons) = if kind == "mouseMoved" { ("none", 0) } else { ("left", 1) };
        let params = json!({ "type": kind, "x": x, "y": y, "button": button, "buttons": buttons, "clickCount": 1, "modifiers": modifiers });
        self.call("Input.dispatchMouseEvent", params);
    }

    /// Moves the mouse over an element until a condition holds, and returns where it is: charts that load above an element
    /// may still push it away from under the mouse.
    pub fn hover(&mut self, selector: &str, what: &str, script: &str) -> [f64; 2] {
        let begun = Instant::now();
        loop {
            let [x, y] = self.middle(selector);
            self.mouse("mouseMoved", x - 1.0, y, 0);
            self.mouse("mouseMoved", x, y, 0);
            std::thread::sleep(Duration::from_millis(100));
            if self.eval(&format!("Boolean({script})")) == json!(true) {
                return [x, y];
            }
            assert!(begun.elapsed() < PATIENCE, "{what}: {script} stayed false; errors {:?}", self.errors);
        }
    }

    /// Presses, moves and releases; `modifiers` 8 is shift.
    pub fn drag(&mut self, from: [f64; 2], to: [f64; 2], modifiers: u32) {
        self.mouse("mousePressed", from[0], from[1], modifiers);
        for step in 1..=10 {
            let share = f64::from(step) / 10.0;
            let at = [from[0] + (to[0] - from[0]) * share, from[1] + (to[1] - from[1]) * share];
            let params = json!({ "type": "mouseMoved", "x": at[0], "y": at[1], "button": "left", "buttons": 1, "modifiers": modifiers });
            self.call("Input.dispatchMouseEvent", params);
        }
        self.mouse("mouseReleased", to[0], to[1], modifiers);
    }

    pub fn key(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            self.call(
                "Input.dispatchKeyEvent",
                json!({ "type": kind, "key": key, "text": if kind == "keyDown" && key.len() == 1 { key } else { "" } }),
            );
        }
    }

    /// The middle of an element.
    pub fn middle(&mut self, selector: &str) -> [f64; 2] {
        let script = format!(
            "(() => {{ const e = document.querySelector({selector:?}); e.scrollIntoView({{block: 'center'}}); \
             const b = e.getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2]; }})()"
        );
        let position = self.eval(&script);
        [position[0].as_f64().unwrap(), position[1].as_f64().unwrap()]
    }

    pub fn shot(&mut self, path: &Path) {
        let screenshot = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        let bytes = decode(screenshot["data"].as_str().unwrap());
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Base 64.
fn decode(text: &str) -> Vec<u8> {
    let value = |letter: u8| match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let letters: Vec<u8> = text.bytes().filter(|letter| *letter != b'=').map(value).collect();
    let mut bytes = Vec::with_capacity(letters.len() * 3 / 4);
    for group in letters.chunks(4) {
        let bits = group.iter().fold(0u32, |bits, letter| bits << 6 | u32::from(*letter)) << (6 * (4 - group.len()));
        bytes.extend(bits.to_be_bytes()[1..group.len()].iter());
    }
    bytes
}
