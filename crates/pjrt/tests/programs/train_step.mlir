// One step of a tiny network, written by hand: a convolution, a matrix product, a loss and an update of the weights.
// The batch is split over eight devices, the weights are replicated and donated: output 0 takes over argument 0.
module @tiny_step attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["batch"=8]>

  func.func public @main(
      %weights: tensor<64x10xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>, tf.aliasing_output = 0 : i32},
      %filter: tensor<3x3x3x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}, {}]>},
      %images: tensor<64x16x16x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"batch"}, {}, {}, {}]>}
  ) -> (tensor<64x10xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>},
        tensor<f32> {sdy.sharding = #sdy.sharding<@mesh, []>}) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %rate = stablehlo.constant dense<1.0e-3> : tensor<64x10xf32>
    %features = stablehlo.convolution(%images, %filter)
        dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
        window = {stride = [2, 2], pad = [[1, 1], [1, 1]]}
        {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
        : (tensor<64x16x16x3xf32>, tensor<3x3x3x64xf32>) -> tensor<64x8x8x64xf32>
    %pooled = stablehlo.reduce(%features init: %zero) applies stablehlo.add across dimensions = [1, 2]
        : (tensor<64x8x8x64xf32>, tensor<f32>) -> tensor<64x64xf32>
    %logits = stablehlo.dot_general %pooled, %weights, contracting_dims = [1] x [0]
        : (tensor<64x64xf32>, tensor<64x10xf32>) -> tensor<64x10xf32>
    %squares = stablehlo.multiply %logits, %logits : tensor<64x10xf32>
    %loss = stablehlo.reduce(%squares init: %zero) applies stablehlo.add across dimensions = [0, 1]
        : (tensor<64x10xf32>, tensor<f32>) -> tensor<f32>
    %gradient = stablehlo.dot_general %pooled, %logits, contracting_dims = [0] x [0]
        : (tensor<64x64xf32>, tensor<64x10xf32>) -> tensor<64x10xf32>
    %step = stablehlo.multiply %gradient, %rate : tensor<64x10xf32>
    %updated = stablehlo.subtract %weights, %step : tensor<64x10xf32>
    return %updated, %loss : tensor<64x10xf32>, tensor<f32>
  }
}
