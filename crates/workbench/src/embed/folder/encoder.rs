//! A BERT encoder: word pieces in, one output for each piece. Plain arithmetic on the loaded weights; a
//! library optimized for the processor computes the large products.
#![allow(unsafe_code)]

use super::Shape;
use super::tensors::Tensors;

/// All weights of a model.
#[derive(Debug)]
pub(super) struct Encoder {
    width: usize,
    heads: usize,
    words: Vec<f32>,
    positions: Vec<f32>,
    /// The token type embedding of the first text of a pair; there is never a second one.
    kind: Vec<f32>,
    norm: Norm,
    layers: Vec<Layer>,
}

/// One layer: self-attention and a feed-forward network, each followed by an addition and a normalization.
#[derive(Debug)]
struct Layer {
    query: Linear,
    key: Linear,
    value: Linear,
    attended: Linear,
    attended_norm: Norm,
    wide: Linear,
    narrow: Linear,
    norm: Norm,
}

/// A linear transformation; its weights have one row per output.
#[derive(Debug)]
struct Linear {
    inputs: usize,
    outputs: usize,
    weights: Vec<f32>,
    bias: Vec<f32>,
}

/// A layer normalization.
#[derive(Debug)]
struct Norm {
    scale: Vec<f32>,
    shift: Vec<f32>,
    epsilon: f32,
}

impl Encoder {
    pub(super) fn new(shape: &Shape, tensors: Tensors) -> Result<Self, String> {
        let width = shape.hidden_size;
        let kinds = tensors.take("embeddings.token_type_embeddings.weight", &[2, width])?;
        let layers: Result<Vec<Layer>, String> =
            (0..shape.num_hidden_layers).map(|number| Layer::new(shape, &tensors, number)).collect();
        Ok(Self {
            width,
            heads: shape.num_attention_heads,
            words: tensors.take("embeddings.word_embeddings.weight", &[shape.vocab_size, width])?,
            positions: tensors
                .take("embeddings.position_embeddings.weight", &[shape.max_position_embeddings, width])?,
            kind: kinds[..width].to_vec(),
            norm: Norm::new(shape, &tensors, "embeddings.LayerNorm")?,
            layers: layers?,
        })
    }

    /// The number of values in an output.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// Returns the outputs, one after the other. Pieces unknown to the model count as its first one.
    pub(super) fn run(&self, pieces: &[usize]) -> Vec<f32> {
        let width = self.width;
        let row = |all: &[f32], at: usize| -> Vec<f32> {
            all.get(at * width..(at + 1) * width).unwrap_or(&all[..width]).to_vec()
        };
        let mut states = Vec::with_capacity(pieces.len() * width);
        for (at, piece) in pieces.iter().enumerate() {
            let (word, position) = (row(&self.words, *piece), row(&self.positions, at));
            states.extend(
                word.iter()
                    .zip(&position)
                    .zip(&self.kind)
                    .map(|((word, position), kind)| word + position + kind),
            );
        }
        self.norm.apply(&mut states);
        for layer in &self.layers {
            layer.apply(&mut states, self.heads);
        }
        states
    }
}

impl Layer {
    fn new(shape: &Shape, tensors: &Tensors, number: usize) -> Result<Self, String> {
        let (width, wide) = (shape.hidden_size, shape.intermediate_size);
        let linear = |name: &str, inputs, outputs| {
            Linear::new(tensors, &format!("encoder.layer.{number}.{name}"), inputs, outputs)
        };
        let norm = |name: &str| Norm::new(shape, tensors, &format!("encoder.layer.{number}.{name}"));
        Ok(Self {
            query: linear("attention.self.query", width, width)?,
            key: linear("attention.self.key", width, width)?,
            value: linear("attention.self.value", width, width)?,
            attended: linear("attention.output.dense", width, width)?,
            attended_norm: norm("attention.output.LayerNorm")?,
            wide: linear("intermediate.dense", width, wide)?,
            narrow: linear("output.dense", wide, width)?,
            norm: norm("output.LayerNorm")?,
        })
    }

    fn apply(&self, states: &mut [f32], heads: usize) {
        let attention = self.attend(states, heads);
        add(states, &self.attended.apply(&attention));
        self.attended_norm.apply(states);
        let mut wide = self.wide.apply(states);
        for number in &mut wide {
            *number = gelu(*number);
        }
        add(states, &self.narrow.apply(&wide));
        self.norm.apply(states);
    }

    /// Self-attention: every piece attends to all pieces, once per head.
    fn attend(&self, states: &[f32], heads: usize) -> Vec<f32> {
        let (query, key, value) =
            (self.query.apply(states), self.key.apply(states), self.value.apply(states));
        let width = self.query.outputs;
        let (count, head) = (states.len() / width, width / heads);
        let mut attended = vec![0f32; states.len()];
        let mut weights = vec![0f32; count * count];
        #[allow(clippy::cast_precision_loss, reason = "a few dozen")]
        let scale = 1.0 / (head as f32).sqrt();
        for at in (0..heads).map(|number| number * head) {
            let rows =
                |numbers| Matrix { numbers, from: at, rows: count, columns: head, down: width, right: 1 };
            let turned =
                Matrix { numbers: &key, from: at, rows: head, columns: count, down: 1, right: width };
            let whole = OutputSlice { from: 0, down: count };
            multiply(scale, rows(&query), turned, 0.0, &mut weights, whole);
            weights.chunks_exact_mut(count).for_each(softmax);
            let square =
                Matrix { numbers: &weights, from: 0, rows: count, columns: count, down: count, right: 1 };
            multiply(1.0, square, rows(&value), 0.0, &mut attended, OutputSlice { from: at, down: width });
        }
        attended
    }
}

impl Linear {
    fn new(tensors: &Tensors, name: &str, inputs: usize, outputs: usize) -> Result<Self, String> {
        Ok(Self {
            inputs,
            outputs,
            weights: tensors.take(&format!("{name}.weight"), &[outputs, inputs])?,
            bias: tensors.take(&format!("{name}.bias"), &[outputs])?,
        })
    }

    /// Applies the transformation to each row of the states.
    fn apply(&self, states: &[f32]) -> Vec<f32> {
        let rows = states.len() / self.inputs;
        let mut out = self.bias.repeat(rows);
        let states =
            Matrix { numbers: states, from: 0, rows, columns: self.inputs, down: self.inputs, right: 1 };
        let turned = Matrix {
            numbers: &self.weights,
            from: 0,
            rows: self.inputs,
            columns: self.outputs,
            down: 1,
            right: self.inputs,
        };
        multiply(1.0, states, turned, 1.0, &mut out, OutputSlice { from: 0, down: self.outputs });
        out
    }
}

impl Norm {
    fn new(shape: &Shape, tensors: &Tensors, name: &str) -> Result<Self, String> {
        Ok(Self {
            scale: tensors.take(&format!("{name}.weight"), &[shape.hidden_size])?,
            shift: tensors.take(&format!("{name}.bias"), &[shape.hidden_size])?,
            epsilon: shape.layer_norm_eps,
        })
    }

    /// Normalizes each row of the states in place.
    #[allow(clippy::cast_precision_loss, reason = "some hundred numbers")]
    fn apply(&self, states: &mut [f32]) {
        let width = self.scale.len();
        for state in states.chunks_exact_mut(width) {
            let mean = state.iter().sum::<f32>() / width as f32;
            let spread =
                state.iter().map(|number| (number - mean) * (number - mean)).sum::<f32>() / width as f32;
            let factor = 1.0 / (spread + self.epsilon).sqrt();
            for ((number, scale), shift) in state.iter_mut().zip(&self.scale).zip(&self.shift) {
                *number = (*number - mean) * factor * scale + shift;
            }
        }
    }
}

fn add(states: &mut [f32], more: &[f32]) {
    for (state, more) in states.iter_mut().zip(more) {
        *state += more;
    }
}

/// Turns a row of scores into weights that sum to 1. The maximum is subtracted, so that `exp` cannot
/// overflow.
fn softmax(row: &mut [f32]) {
    let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for number in row.iter_mut() {
        *number = (*number - most).exp();
        sum += *number;
    }
    for number in row {
        *number /= sum;
    }
}

/// The exact form of GELU, with an approximation of the error function that is accurate to seven digits.
fn gelu(number: f32) -> f32 {
    let x = number.abs() / std::f32::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let poly =
        t * (0.254_829_6 + t * (-0.284_496_74 + t * (1.421_413_7 + t * (-1.453_152 + t * 1.061_405_4))));
    let erf = (1.0 - poly * (-x * x).exp()).copysign(number);
    0.5 * number * (1.0 + erf)
}

/// Numbers viewed as a matrix, with the distance to the next row and to the next column.
struct Matrix<'a> {
    numbers: &'a [f32],
    from: usize,
    rows: usize,
    columns: usize,
    down: usize,
    right: usize,
}

impl Matrix<'_> {
    fn fits(&self) -> bool {
        let last = (self.rows.max(1) - 1) * self.down + (self.columns.max(1) - 1) * self.right;
        self.rows == 0 || self.columns == 0 || self.from + last < self.numbers.len()
    }
}

/// Where a product is written.
struct OutputSlice {
    from: usize,
    down: usize,
}

/// Computes `out = scale · one · other + keep · out`. Does nothing if the dimensions do not match, which the
/// constructors rule out.
fn multiply(scale: f32, one: Matrix<'_>, other: Matrix<'_>, keep: f32, out: &mut [f32], at: OutputSlice) {
    let last = at.from + (one.rows.max(1) - 1) * at.down + other.columns.max(1) - 1;
    let fits = one.fits() && other.fits() && one.columns == other.rows && last < out.len();
    debug_assert!(fits);
    if !fits {
        return;
    }
    let signed = |number: usize| isize::try_from(number).unwrap_or(isize::MAX);
    // SAFETY: all three lie inside their slices, as was just checked, and `out` is borrowed exclusively.
    unsafe {
        matrixmultiply::sgemm(
            one.rows,
            one.columns,
            other.columns,
            scale,
            one.numbers.as_ptr().add(one.from),
            signed(one.down),
            signed(one.right),
            other.numbers.as_ptr().add(other.from),
            signed(other.down),
            signed(other.right),
            keep,
            out.as_mut_ptr().add(at.from),
            signed(at.down),
            1,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gelu_is_the_exact_one() {
        for (number, expected) in
            [(0.0, 0.0), (1.0, 0.841_345), (-1.0, -0.158_655), (3.0, 2.995_95), (-4.0, -0.000_127)]
        {
            assert!((gelu(number) - expected).abs() < 1e-5, "{number}: {}", gelu(number));
        }
    }

    #[test]
    fn products_scale_keep_and_go_to_their_place() {
        let (one, other) = ([1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]);
        let matrix = |numbers, down, right| Matrix { numbers, from: 0, rows: 2, columns: 2, down, right };
        let mut out = vec![1.0; 6];
        multiply(
            2.0,
            matrix(&one, 2, 1),
            matrix(&other, 1, 2),
            1.0,
            &mut out,
            OutputSlice { from: 1, down: 3 },
        );
        assert_eq!(out, [1.0, 35.0, 47.0, 1.0, 79.0, 107.0]);
    }
}
