/** What the pages of jobs ask for. */
import { keepPreviousData, useQueries, useQuery } from "@tanstack/react-query";

import type { Job, JobQuery } from "./client";
import { api, data } from "./client";

const LIST_MS = 3000;

/** Jobs that are wanted, fresh every few seconds; what was there stays until the answer is. */
export const useJobList = (query: JobQuery) =>
  useQuery({
    queryKey: ["jobs", "list", query],
    placeholderData: keepPreviousData,
    refetchInterval: LIST_MS,
    queryFn: () => data(api.GET("/api/v1/jobs", { params: { query } })),
  });

export const useLabels = () =>
  useQuery({ queryKey: ["jobs", "labels"], queryFn: () => data(api.GET("/api/v1/jobs/labels")) });

export const useModels = () =>
  useQuery({
    queryKey: ["models"],
    queryFn: () => data(api.GET("/api/v1/models", { params: { query: { limit: 500 } } })),
  });

/** The model of a job as a build sees it. It never changes. */
export const useGraph = (job: Job) =>
  useQuery({
    queryKey: ["graph", job.model, job.shapes],
    enabled: job.model !== null,
    staleTime: Infinity,
    queryFn: () =>
      data(
        api.GET("/api/v1/models/{model_hash}/graph", {
          params: {
            path: { model_hash: job.model! },
            query: job.shapes ? { shapes: JSON.stringify(job.shapes) } : {},
          },
        }),
      ),
  });

const one = (id: number) => ({
  queryKey: ["job", id],
  queryFn: () => data(api.GET("/api/v1/jobs/{job_id}", { params: { path: { job_id: id } } })),
});
const tasks = (id: number) => ({
  queryKey: ["job", id, "tasks"],
  queryFn: () => data(api.GET("/api/v1/jobs/{job_id}/tasks", { params: { path: { job_id: id } } })),
});
const progress = (id: number) => ({
  queryKey: ["job", id, "progress"],
  queryFn: () => data(api.GET("/api/v1/jobs/{job_id}/progress", { params: { path: { job_id: id } } })),
});

/** Several jobs with their tasks and curves, each fresh every few seconds: some may run. */
export function useCompared(ids: number[]) {
  const refetchInterval = LIST_MS;
  const jobs = useQueries({ queries: ids.map((id) => ({ ...one(id), refetchInterval })) });
  const all = useQueries({ queries: ids.map((id) => ({ ...tasks(id), refetchInterval })) });
  const curves = useQueries({ queries: ids.map((id) => ({ ...progress(id), refetchInterval })) });
  return ids.map((id, at) => ({ id, job: jobs[at]!, tasks: all[at]!, progress: curves[at]! }));
}

/** The jobs of the same model and target, the newest first. */
export const useHistory = (job: Job) =>
  useQuery({
    queryKey: ["jobs", "history", job.model, job.target],
    enabled: job.model !== null,
    refetchInterval: 10_000,
    queryFn: () =>
      data(
        api.GET("/api/v1/jobs", { params: { query: { model: job.model!, target: job.target, limit: 200 } } }),
      ),
  });
