//! The pages, inside the binary.

const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! script {
    ($name:literal) => {
        (concat!("/", $name), SCRIPT, include_bytes!(concat!("../web/", $name)))
    };
}

/// Address, type and content.
pub(crate) const ASSETS: &[(&str, &str, &[u8])] = &[
    ("/", "text/html; charset=utf-8", include_bytes!("../web/index.html")),
    ("/board.css", "text/css; charset=utf-8", include_bytes!("../web/board.css")),
    ("/icon.svg", "image/svg+xml", include_bytes!("../web/icon.svg")),
    script!("main.js"),
    script!("state.js"),
    script!("dom.js"),
    script!("chart.js"),
    script!("scale.js"),
    script!("picker.js"),
    script!("curves.js"),
    script!("runs.js"),
    script!("notes.js"),
    script!("compare.js"),
    script!("images.js"),
    script!("judgement.js"),
    script!("confusion.js"),
    script!("machine.js"),
    script!("timeline.js"),
    script!("network.js"),
    script!("histograms.js"),
    script!("log.js"),
];
