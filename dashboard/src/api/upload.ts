/** Sending a model, with its progress, which the generated client cannot tell. */
import type { Model, Workloads } from "./client";
import { ApiError, api, data } from "./client";
import type { Shapes, Values } from "./inputs";
import { jsonOf } from "./inputs";

export type Uploaded = { model: Model; workloads: Workloads; shapes: Shapes | null };

/** Store the file and read what there is to tune in it; `progress` hears the part sent, 0 to 1. */
export async function uploaded(
  file: File,
  shapes: Shapes | null,
  values: Values | null,
  progress: (part: number) => void,
): Promise<Uploaded> {
  const query = new URLSearchParams({ name: file.name });
  if (values) query.set("values", jsonOf(values));
  const url = `/api/v1/models?${query}`;
  if (shapes) query.set("shapes", JSON.stringify(shapes));
  const model = await sent(`/api/v1/models?${query}`, file, progress).catch((error: unknown) => {
    // Known with other shapes: it need not be sent again, only read with these.
    if (!(error instanceof ApiError) || error.status !== 409 || !shapes) throw error;
    return sent(url, file, progress).catch((second: unknown) => {
      // With values it is read each time, and may leave shapes open: then what was said first is the way out.
      throw second instanceof ApiError && second.status === 422 ? error : second;
    });
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
