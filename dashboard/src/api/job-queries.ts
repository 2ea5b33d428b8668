/** What the pages of jobs ask for. */
import { keepPreviousData, useQueries, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import type { Job, JobQuery } from "./client";
import { api, data } from "./client";
import { isOver } from "./live";
import { jobOf, progressOf, tasksOf } from "./queries";

const LIST_MS = 3000;

/** Jobs that are wanted, fresh every few seconds; what was there stays until the answer is. */
export const useJobList = (query: JobQuery) =>
  useQuery({
    queryKey: ["jobs", "list", query],
    placeholderData: keepPreviousData,
    refetchInterval: LIST_MS,
    queryFn: () => data(api.GET("/api/v1/jobs", { params: { query } })),
  });

/** Those that run and those that wait for it, each with how many there are of them: whatever ended since. */
export function useUnfinished(limit: number) {
  const running = useJobList({ state: ["running", "cancelling"], limit });
  const queued = useJobList({ state: ["queued"], order: "up", limit });
  const [first, then] = [running.data, queued.data];
  return {
    error: running.error ?? queued.error,
    data: first &&
      then && {
        running: first.total,
        queued: then.total,
        items: [...first.items, ...then.items].slice(0, limit),
      },
  };
}

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
        api.POST("/api/v1/models/{model_hash}/graph", {
          params: {
            path: { model_hash: job.model! },
            query: job.shapes ? { shapes: JSON.stringify(job.shapes) } : {},
          },
        }),
      ),
  });

/** A job, fresh every few seconds as long as it runs. */
const freshOf = (id: number) => ({
  ...jobOf(id),
  refetchInterval: ({ state }: { state: { data: Job | undefined } }) =>
    state.data && isOver(state.data) ? (false as const) : LIST_MS,
});

/** Jobs that were chosen from a list, which one that shows others leaves behind; and how to choose. */
export function useChosen(): [ids: number[], over: boolean, choose: (ids: number[], of: Job[]) => void] {
  const queries = useQueryClient();
  const [ids, setIds] = useState<number[]>([]);
  // What the list said is not asked for again.
  const jobs = useQueries({ queries: ids.map((id) => ({ ...freshOf(id), staleTime: Infinity })) });
  const over = jobs.every(({ data: job }) => job !== undefined && isOver(job));
  return [
    ids,
    over,
    (next, of) => {
      for (const job of of) queries.setQueryData(["job", job.id], job);
      setIds(next);
    },
  ];
}

/** Several jobs with their tasks and curves, fresh every few seconds as long as each runs. */
export function useCompared(ids: number[]) {
  const jobs = useQueries({ queries: ids.map(freshOf) });
  // Once more after the job was seen to be over: the last trials may have come in between.
  const often = jobs.map(({ data: job, dataUpdatedAt }) => ({
    refetchInterval: ({ state }: { state: { dataUpdatedAt: number } }) =>
      job && isOver(job) && state.dataUpdatedAt >= dataUpdatedAt ? (false as const) : LIST_MS,
  }));
  const tasks = useQueries({ queries: ids.map((id, at) => ({ ...tasksOf(id), ...often[at] })) });
  const curves = useQueries({ queries: ids.map((id, at) => ({ ...progressOf(id), ...often[at] })) });
  return ids.map((id, at) => ({ id, job: jobs[at]!, tasks: tasks[at]!, progress: curves[at]! }));
}

/** The jobs of the same model on all targets, the newest first. */
export const useOfModel = (job: Job) =>
  useQuery({
    queryKey: ["jobs", "of model", job.model],
    enabled: job.model !== null,
    queryFn: () => data(api.GET("/api/v1/jobs", { params: { query: { model: job.model!, limit: 500 } } })),
  });

/** The jobs of the same model and target, the newest first; again now and then as long as this one runs. */
export const useHistory = (job: Job) =>
  useQuery({
    queryKey: ["jobs", "history", job.model, job.target],
    enabled: job.model !== null,
    refetchInterval: isOver(job) ? false : 10_000,
    queryFn: () =>
      data(
        api.GET("/api/v1/jobs", { params: { query: { model: job.model!, target: job.target, limit: 200 } } }),
      ),
  });
