// One HTTP request exactly as written: a path that no URL parser has tidied, any header, any bytes as the body.
import { request } from "node:http";

export interface RawAnswer {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  text: string;
  // biome-ignore lint/suspicious/noExplicitAny: the wire is what these tests look at.
  body: any;
}

export interface RawRequest {
  method: string;
  path: string;
  headers?: Record<string, string | string[]>;
  body?: string | Buffer;
}

export function rawHttp(origin: string, asked: RawRequest): Promise<RawAnswer> {
  const { hostname, port } = new URL(origin);
  return new Promise((resolve, reject) => {
    const sent = request({ hostname, port, method: asked.method, path: asked.path, headers: asked.headers ?? {} }, (answer) => {
      const chunks: Buffer[] = [];
      answer.on("data", (chunk: Buffer) => chunks.push(chunk));
      answer.on("error", reject);
      answer.on("end", () => {
        const text = Buffer.concat(chunks).toString("utf8");
        const isJson = /json/.test(String(answer.headers["content-type"]));
        resolve({ status: answer.statusCode ?? 0, headers: answer.headers, text, body: isJson && text !== "" ? JSON.parse(text) : null });
      });
    });
    sent.on("error", reject);
    sent.end(asked.body);
  });
}
