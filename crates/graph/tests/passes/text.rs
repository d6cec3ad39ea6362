use crate::floats;
use octant_graph::{Convolution, DType, HostTensor, Reduction, Shape, Trace, Window};

#[test]
fn a_graph_as_text() {
    let trace = Trace::new();
    let x = trace.input("images", floats(&[8, 28, 28, 1]));
    let w = trace.input("features.0.weight", floats(&[3, 3, 1, 64]));
    let scope = trace.scope("features.0");
    let conv = Convolution { strides: vec![2, 2], padding: vec![(1, 1); 2], ..Convolution::nhwc(2, DType::F32) };
    let y = x.convolution(&w, conv);
    drop(scope);
    let pooled = y.reduce_window(Reduction::Max, Window::new([1, 2, 2, 1]));
    let loops = trace.while_loop(
        &[trace.scalar(DType::I32, 0.0)],
        Some(3),
        |carried| carried[0].less(&carried[0].scalar_like(3.0)),
        |carried| vec![&carried[0] + 1.0],
    );
    let table = trace.constant(HostTensor::zeros(Shape::new(DType::I32, [100])));
    let graph = trace.finish(&[pooled, loops[0].clone(), table]).unwrap();
    let expected = "\
%0 f32[8,28,28,1] = parameter() {0 \"images\"}
%1 f32[3,3,1,64] = parameter() {1 \"features.0.weight\"}
%2 f32[8,14,14,64] = convolution(%0, %1) {b01f_01io->b01f strides=[2, 2] padding=[(1, 1), (1, 1)]}  # features.0
%3 f32[8,7,7,64] = reduce_window(%2) {Max size=[1, 2, 2, 1] strides=[1, 2, 2, 1]}
%4 i32[] = constant() {0}
%5 i32[] = while(%4) {bound=3}
  condition:
    %0 i32[] = parameter() {0 \"arg0\"}
    %1 i32[] = constant() {3}
    %2 bool[] = compare(%0, %1) {Less}
    return %2
  body:
    %0 i32[] = parameter() {0 \"arg0\"}
    %1 i32[] = constant() {1}
    %2 i32[] = add(%0, %1)
    return %2
%6 i32[100] = constant() {0, 0, 0, 0, 0, 0, 0, 0, … 92 more}
return %3, %5, %6
";
    assert_eq!(graph.to_string(), expected);
}
