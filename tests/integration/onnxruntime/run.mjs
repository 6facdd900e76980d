// node run.mjs NODE_MODULES MODEL.onnx INPUT.npy OUTPUT: runs the model with ONNX Runtime on the float32
// array and writes its first output as raw little-endian float32.
//
// To install what it needs, once:
//   mkdir -p build/onnxruntime && cp tests/integration/onnxruntime/package.json build/onnxruntime
//   npm install --ignore-scripts --no-package-lock --prefix build/onnxruntime
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const [nodeModules, modelPath, inputPath, outputPath] = process.argv.slice(2);
const ort = createRequire(join(nodeModules, 'any.js'))('onnxruntime-node');

function readNpy(path) {
  const bytes = readFileSync(path);
  const end = 10 + bytes.readUInt16LE(8);
  const header = bytes.toString('latin1', 10, end);
  if (!header.includes("'<f4'")) throw new Error(`${path}: not float32: ${header}`);
  const shape = header.match(/'shape': \(([^)]*)\)/)[1].split(',').map((s) => s.trim());
  const dims = shape.filter((s) => s !== '').map(Number);
  const data = new Float32Array(bytes.buffer.slice(bytes.byteOffset + end));
  return new ort.Tensor('float32', data, dims);
}

const session = await ort.InferenceSession.create(modelPath);
const results = await session.run({ [session.inputNames[0]]: readNpy(inputPath) });
const { data } = results[session.outputNames[0]];
writeFileSync(outputPath, Buffer.from(data.buffer, data.byteOffset, data.byteLength));
