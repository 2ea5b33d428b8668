/** Sending a model, with its progress, which the generated client cannot tell. */
import type { Model, Workloads } from "./client";
import { ApiError, api, data } from "./client";

export type Shapes = Record<string, (number | string)[]>;
export type Uploaded = { model: Model; workloads: Workloads; shapes: Shapes | null };

/** Store the file and read what there is to tune in it; `progress` hears the part sent, 0 to 1. */
export async function uploaded(
  file: File,
  shapes: Shapes | null,
  progress: (part: number) => void,
): Promise<Uploaded> {
  const query = new URLSearchParams({ name: file.name });
  if (shapes) query.set("shapes", JSON.stringify(shapes));
  const model = await sent(`/api/v1/models?${query}`, file, progress).catch((error: unknown) => {
    // Known with other shapes: it need not be sent again, only read with these.
    if (!(error instanceof ApiError) || error.status !== 409 || !shapes) throw error;
    return sent(`/api/v1/models?${new URLSearchParams({ name: file.name })}`, file, progress);
  });
  const path = { path: { model_hash: model.hash } };
  const workloads = await data(
    shapes
      ? api.POST("/api/v1/models/{model_hash}/workloads", {
          params: { ...path, query: { shapes: JSON.stringify(shapes) } },
        })
      : api.GET("/api/v1/models/{model_hash}/workloads", { params: path }),
  );
  return { model, workloads, shapes };
}

function sent(url: string, file: File, progress: (part: number) => void): Promise<Model> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", url);
    request.setRequestHeader("content-type", "application/octet-stream");
    request.responseType = "json";
    request.upload.onprogress = ({ loaded, total }) => progress(total ? loaded / total : 0);
    request.upload.onload = () => progress(1);
    request.onerror = () => reject(new ApiError("the coordinator does not answer", 0));
    request.onload = () => {
      const body = request.response as (Model & { detail?: string }) | null;
      if (request.status < 300 && body) resolve(body);
      else reject(new ApiError(body?.detail ?? `HTTP ${request.status}`, request.status));
    };
    request.send(file);
  });
}

/** Lines like `x=1,3,224,224` as shapes, or what is wrong with them. */
export function shapesOf(text: string): Shapes | string {
  const shapes: Shapes = {};
  for (const line of text.split("\n").map((each) => each.trim())) {
    if (!line) continue;
    const at = line.lastIndexOf("=");
    const sizes = line
      .slice(at + 1)
      .split(",")
      .map((size) => size.trim());
    const wrong = sizes.find((size) => !/^[1-9]\d*$|^\d+\.\.\d+$/.test(size));
    if (at < 1 || wrong !== undefined)
      return `"${line}" is not like x=1,3,224,224${wrong ? `: "${wrong}" is no size` : ""}`;
    shapes[line.slice(0, at)] = sizes.map((size) => (size.includes("..") ? size : Number(size)));
  }
  return Object.keys(shapes).length ? shapes : "give at least one input";
}

/** The shapes that a refusal proposes, as the lines that a field takes. */
export function shapesIn(message: string): string {
  return [...message.matchAll(/--shape (?:'([^']+)'|(\S+?))=([\d,]+)/g)]
    .map(([, quoted, plain, sizes]) => `${quoted ?? plain}=${sizes}`)
    .join("\n");
}
