//! One file per family. Every file reads in the same order: source of its facts, configuration, blocks, model.

pub mod clip;
pub mod convnext;
pub mod deit;
pub mod dinov2;
pub mod efficientnet;
pub mod fashion_cnn;
pub mod mbconv;
pub mod mobilenetv3;
pub mod mobilenetv4;
pub mod mshnet;
pub mod resnet;
pub mod swin;
pub mod transformer;
pub mod unet;
pub mod vit;
pub mod yolo;
pub mod yolo11;
pub mod yolo12;
pub mod yolo26;
pub mod yolov8;
pub mod yolox;
