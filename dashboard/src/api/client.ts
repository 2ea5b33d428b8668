/** The coordinator's API, typed by its own OpenAPI document (`npm run types`). */
import createClient from "openapi-fetch";

import type { components, operations, paths } from "./schema";

type Schemas = components["schemas"];
export type Job = Schemas["Job"];
/** The client gives pairs as lists. */
export type Task = Omit<Schemas["Task"], "curve"> & { curve: number[][] };
export type Point = Schemas["Point"];
export type GraphNode = Schemas["GraphNode"];
export type JobQuery = NonNullable<operations["list_jobs"]["parameters"]["query"]>;
export type Explanation = Schemas["Explanation"];
export type Board = Schemas["Board"];
export type Model = Schemas["Model"];
export type Target = Schemas["Target"];
export type Workloads = Schemas["Workloads"];
export type TuningRecord = Schemas["Record"];
export type JobRequest = Schemas["JobRequest"];

export const api = createClient<paths>({ baseUrl: "" });

/** What the coordinator said was wrong, or that it said nothing. */
export class ApiError extends Error {
  constructor(
    message: string,
    readonly status: number,
  ) {
    super(message);
  }
}

type Answer<T> = Promise<{ data?: T; error?: unknown; response: Response }>;

/** The data of an answer; throws ApiError with the problem's own words. */
export async function data<T>(answer: Answer<T>): Promise<T> {
  const found = await done(answer);
  if (found === undefined) throw new ApiError("the coordinator's answer has nothing in it", 0);
  return found;
}

/** As `data`, of what answers with nothing when it is done. */
export async function done<T>(answer: Answer<T>): Promise<T | undefined> {
  const {
    data: found,
    error,
    response,
  } = await answer.catch(() => {
    throw new ApiError("the coordinator does not answer", 0);
  });
  if (response.ok) return found;
  throw new ApiError(detailOf(error) ?? `HTTP ${response.status}`, response.status);
}

function detailOf(error: unknown): string | undefined {
  const detail = (error as { detail?: unknown } | undefined)?.detail;
  return typeof detail === "string" ? detail : undefined;
}
