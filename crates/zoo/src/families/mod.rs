//! One file per family. Every file reads in the same order: source of its facts, configuration, blocks, model.

pub mod autoencoder;
pub mod convnext;
pub mod dncnn;
pub mod edsr;
pub mod efficientnet;
pub mod fashion_cnn;
pub mod gan;
pub mod mbconv;
pub mod mobilenetv3;
pub mod mshnet;
pub mod nafnet;
pub mod patchgan;
pub mod resnet;
pub mod resnet_generator;
pub mod unet;
pub mod unet_generator;
pub mod vit;
pub mod yolo;
pub mod yolo11;
pub mod yolo12;
pub mod yolo26;
pub mod yolov8;
pub mod yolox;
