//! What the protocol returns is what the predictor computes, whatever form the request has.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use crate::support::*;
use octant_data::ObjectDetail;
use octant_predict::{Output, PredictOptions, Predictor, Suppression};
use octant_serve::ModelSource;
use serde_json::{Value, json};

fn f32s(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect()
}

fn json_f32s(value: &Value) -> Vec<f32> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap() as f32).collect()
}

#[test]
fn tensors_in_json_and_behind_it_return_the_predictors_own_bits() {
    let device = cpu();
    let server = start(vec![source("tiny", "resnet-tiny", 3)], &device, options());
    let address = server.endpoint().address;
    let predictor = predictor("resnet-tiny", 3, &device);
    // More images than a batch has, so that the request is several jobs.
    for count in [1, 3, 4, 6] {
        let numbers = numbers(count, count);
        let expected = expected(&predictor, count, &numbers);
        let response = logits(address, "tiny", count, &numbers);
        assert_eq!(response.status, 200, "{:?}", String::from_utf8_lossy(&response.body));
        assert!(response.behind() == expected, "{count}");
        let body = json!({ "inputs": [{ "name": "images", "datatype": "FP32", "shape": [count, 3, 32, 32], "data": numbers }] });
        let response = post(address, "/v2/models/tiny/versions/1/infer", &[], body.to_string().as_bytes());
        let json = response.json();
        assert_eq!(json["outputs"][0]["name"], "logits");
        assert_eq!(json["outputs"][0]["shape"], json!([count, 3]));
        // Shortest decimals read back as the same f32.
        assert_eq!(json_f32s(&json["outputs"][0]["data"]), f32s(&expected));
    }
}

#[test]
fn channels_last_tensors_are_taken_where_the_metadata_says_so() {
    let device = cpu();
    let last = octant_serve::ServeOptions { channels_first: false, ..options() };
    let server = start(vec![source("tiny", "resnet-tiny", 3)], &device, last);
    let address = server.endpoint().address;
    assert_eq!(get(address, "/v2/models/tiny").json()["inputs"][0]["shape"], json!([-1, 32, 32, 3]));
    let first = numbers(1, 5);
    let last: Vec<f32> = (0..32 * 32)
        .flat_map(|pixel| (0..3).map(move |channel| channel * 32 * 32 + pixel))
        .map(|at| first[at])
        .collect();
    let response = infer(address, "tiny", "images", "FP32", &[1, 32, 32, 3], &bytes_of(&last));
    assert!(response.behind() == expected(&predictor("resnet-tiny", 3, &device), 1, &first));
    assert_eq!(logits(address, "tiny", 1, &first).status, 400);
}

#[test]
fn encoded_images_pixels_and_a_plain_post_are_one_prediction() {
    let device = cpu();
    let server = start(vec![source("tiny", "resnet-tiny", 3)], &device, options());
    let address = server.endpoint().address;
    let image = image(45, 61, 2);
    let file = png(&image);
    let predictor = predictor("resnet-tiny", 3, &device);
    let prediction = predictor.predict([image.clone()]).unwrap().swap_remove(0);
    let Output::Classes(classes) = &prediction.output else { panic!("it classifies") };
    let scores: Vec<f32> = classes.scores.iter().map(|&score| score as f32).collect();

    let packed = [&(file.len() as u32).to_le_bytes()[..], &file].concat();
    let response = infer(address, "tiny", "image", "BYTES", &[1], &packed);
    assert_eq!(f32s(&response.behind()[..12]), scores, "probabilities come first");
    let pixels = infer(address, "tiny", "image", "UINT8", &[1, 45, 61, 3], image.values());
    assert_eq!(response.behind(), pixels.behind());

    let base64 = base64(&file);
    let body = json!({
        "inputs": [{ "name": "image", "datatype": "BYTES", "shape": [1], "data": [base64] }],
        "outputs": [{ "name": "labels" }, { "name": "probabilities" }],
    });
    let response = post(address, "/v2/models/tiny/infer", &[], body.to_string().as_bytes()).json();
    assert_eq!(json_f32s(&response["outputs"][1]["data"]), scores);
    let best = classes.top(3);
    let labels: Vec<String> = best.iter().map(|(class, _)| classes.names.of(*class)).collect();
    assert_eq!(response["outputs"][0]["data"], json!(labels));

    let plain = post(address, "/predict?top=2", &["Content-Type: image/png"], &file);
    // As text: parsing may round the last bit of a number.
    assert_eq!(String::from_utf8_lossy(&plain.body), Value::Object(prediction.json(2)).to_string());
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |group: &[u8]| {
        let value = group.iter().fold(0u32, |value, &byte| value << 8 | u32::from(byte)) << (8 * (3 - group.len()));
        (0..4)
            .map(|at| if at <= group.len() { LETTERS[(value >> (18 - 6 * at)) as usize & 63] as char } else { '=' })
            .collect::<String>()
    };
    bytes.chunks(3).map(group).collect()
}

#[test]
fn boxes_masks_and_images_of_any_size_are_served() {
    let device = cpu();
    let models = [("boxes", "yolo11-tiny"), ("mask", "mshnet-tiny"), ("made", "edsr-tiny")];
    let sources = models.iter().map(|(name, model)| source(name, model, 1)).collect();
    let server = start(sources, &device, options());
    let address = server.endpoint().address;
    for (name, model) in models {
        let predictor = predictor(model, 1, &device);
        let image =
            octant_imaging::Image::from_fn(70, 52, predictor.channels(), |row, column, _| (row * 3 + column * 2) as u8);
        let file = png(&image);
        let prediction = predictor.predict([image.clone()]).unwrap().swap_remove(0);
        let plain = post(address, &format!("/predict?model={name}"), &[], &file);
        assert_eq!(String::from_utf8_lossy(&plain.body), Value::Object(prediction.json(1)).to_string(), "{name}");
        let drawn = post(address, &format!("/predict?model={name}&format=png"), &[], &file);
        assert!(drawn.status == 200 && drawn.body.starts_with(b"\x89PNG"), "{name}");
        let packed = [&(file.len() as u32).to_le_bytes()[..], &file].concat();
        let response = infer(address, name, "image", "BYTES", &[1], &packed);
        assert_eq!(response.status, 200, "{name}");
        let json: Value =
            serde_json::from_slice(&response.body[..response.body.len() - response.behind().len()]).unwrap();
        match &prediction.output {
            Output::Boxes(boxes) => assert_eq!(json["outputs"][0]["shape"], json!([1, boxes.shown.len(), 4])),
            Output::Mask(mask) => assert_eq!(response.behind(), mask.levels().values()),
            Output::Image(made) => assert_eq!(response.behind(), made.values()),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn networks_with_masks_keypoints_and_rotated_boxes_were_refused() {
    let device = cpu();
    let boxes = Suppression { score: 1e-5, most: 4, ..Suppression::prediction() };
    let shown = PredictOptions { boxes, ..PredictOptions::default() };
    let models = [("masks", "yolov8-tiny-seg"), ("keypoints", "yolov8-tiny-pose"), ("corners", "yolov8-tiny-obb")];
    let named = |(name, model): &(&str, &str)| ModelSource { options: shown.clone(), ..source(name, model, 1) };
    let server = start(models.iter().map(named).collect(), &device, options());
    let address = server.endpoint().address;
    let image = octant_imaging::Image::from_fn(70, 52, 3, |row, column, _| (row * 3 + column * 2) as u8);
    for (name, model) in models {
        let predictor = Predictor::new(network(model, 1), &device, shown.clone()).unwrap();
        let prediction = predictor.predict([image.clone()]).unwrap().swap_remove(0);
        let plain = post(address, &format!("/predict?model={name}"), &[], &png(&image));
        assert_eq!(String::from_utf8_lossy(&plain.body), Value::Object(prediction.json(1)).to_string(), "{name}");
        let Output::Boxes(boxes) = &prediction.output else { panic!("it detects") };
        assert_eq!(boxes.details.len(), 4, "{name}");
        let numbers = |numbers: Vec<f64>| numbers.iter().flat_map(|number| (*number as f32).to_le_bytes()).collect();
        let packed = |detail: &ObjectDetail| -> Vec<u8> {
            match detail {
                ObjectDetail::Mask(mask) => mask.pixels().iter().map(|is_marked| u8::from(*is_marked) * 255).collect(),
                ObjectDetail::Keypoints(points) => numbers(points.concat()),
                ObjectDetail::Rotated(rectangle) => numbers(rectangle.corners().concat()),
                other => panic!("{other:?}"),
            }
        };
        let expected: Vec<u8> = boxes.details.iter().flat_map(packed).collect();
        let response = infer(address, name, "image", "UINT8", &[1, 70, 52, 3], image.values());
        assert!(response.behind().ends_with(&expected), "{name}");
        let head = &response.body[..response.body.len() - response.behind().len()];
        let head: Value = serde_json::from_slice(head).unwrap();
        let shape = match name {
            "masks" => json!([1, 4, 70, 52]),
            "keypoints" => json!([1, 4, 17, 3]),
            _ => json!([1, 4, 4, 2]),
        };
        assert_eq!((&head["outputs"][4]["name"], &head["outputs"][4]["shape"]), (&json!(name), &shape));
    }
    let response = infer(address, "masks", "images", "FP32", &[2, 3, 64, 64], &bytes_of(&vec![0.25; 2 * 3 * 64 * 64]));
    let head = &response.body[..response.body.len() - response.behind().len()];
    let head: Value = serde_json::from_slice(head).unwrap();
    let outputs = head["outputs"].as_array().unwrap();
    assert_eq!((&outputs[0]["name"], &outputs[0]["shape"]), (&json!("rows"), &json!([2, 84, 39])));
    assert_eq!((&outputs[1]["name"], &outputs[1]["shape"]), (&json!("prototypes"), &json!([2, 32, 16, 16])));
    assert_eq!(response.behind().len(), 4 * 2 * (84 * 39 + 32 * 16 * 16));
}

#[test]
fn metadata_health_and_metrics_tell_what_is_served() {
    let device = cpu();
    let server = start(vec![source("a", "resnet-tiny", 1), source("b", "vit-test", 2)], &device, options());
    let address = server.endpoint().address;
    for path in
        ["/v2/health/live", "/v2/health/ready", "/v2/models/a/ready", "/v2/models/b/versions/1/ready", "/", "/page.js"]
    {
        assert_eq!(get(address, path).status, 200, "{path}");
    }
    let metadata = get(address, "/v2/models/a").json();
    assert_eq!(metadata["inputs"][0], json!({ "name": "images", "datatype": "FP32", "shape": [-1, 3, 32, 32] }));
    assert_eq!(metadata["inputs"][1], json!({ "name": "image", "datatype": "BYTES", "shape": [-1] }));
    let names: Vec<&str> =
        metadata["outputs"].as_array().unwrap().iter().map(|output| output["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["probabilities", "classes", "scores", "labels", "logits"]);
    assert_eq!(get(address, "/v2").json()["name"], "octant");
    assert_eq!(get(address, "/v2/models").json(), json!({ "models": ["a", "b"] }));

    assert_eq!(logits(address, "a", 3, &numbers(3, 0)).status, 200);
    assert_eq!(logits(address, "a", 3, &numbers(2, 0)).status, 400);
    let page = String::from_utf8(get(address, "/metrics").body).unwrap();
    for line in [
        "octant_requests_total{model=\"a\",result=\"ok\"} 1",
        "octant_requests_total{model=\"a\",result=\"invalid\"} 1",
        "octant_batch_images_sum{model=\"a\"} 3",
        "octant_requests_total{model=\"b\",result=\"ok\"} 0",
        "octant_request_seconds_count{model=\"a\"} 1",
    ] {
        assert!(page.lines().any(|shown| shown == line), "{line}\n{page}");
    }
}
