/** What pages ask for, and how often. */
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";

import { api, data } from "./client";

const OVERVIEW_MS = 2000;

/** As many as one answer holds: to choose among. */
export const useAllJobs = () =>
  useQuery({
    queryKey: ["jobs", "all"],
    queryFn: () => data(api.GET("/api/v1/jobs", { params: { query: { limit: 500 } } })),
  });

export const useBoards = () =>
  useQuery({
    queryKey: ["boards"],
    queryFn: () => data(api.GET("/api/v1/boards")),
    refetchInterval: OVERVIEW_MS,
  });

export const useTargets = () =>
  useQuery({ queryKey: ["targets"], queryFn: () => data(api.GET("/api/v1/targets")) });

export const useStrategies = () =>
  useQuery({ queryKey: ["strategies"], queryFn: () => data(api.GET("/api/v1/strategies")) });

const ofJob = (id: number) => ({ params: { path: { job_id: id } } });
export const jobOf = (id: number) => ({
  queryKey: ["job", id],
  queryFn: () => data(api.GET("/api/v1/jobs/{job_id}", ofJob(id))),
});
export const tasksOf = (id: number) => ({
  queryKey: ["job", id, "tasks"],
  queryFn: () => data(api.GET("/api/v1/jobs/{job_id}/tasks", ofJob(id))),
});
export const progressOf = (id: number) => ({
  queryKey: ["job", id, "progress"],
  queryFn: () => data(api.GET("/api/v1/jobs/{job_id}/progress", ofJob(id))),
});

export const useJob = (id: number) => useQuery(jobOf(id));
export const useTasks = (id: number) => useQuery(tasksOf(id));
export const useProgress = (id: number) => useQuery(progressOf(id));

export const useVersion = () =>
  useQuery({ queryKey: ["version"], queryFn: () => data(api.GET("/version")), refetchInterval: 5000 });

export const useWorkload = (key: string) =>
  useQuery({
    queryKey: ["workload", key],
    refetchInterval: 10_000, // as its trials are: both say what is the best
    queryFn: () => data(api.GET("/api/v1/workloads/{key}", { params: { path: { key } } })),
  });

/** Which measurements of a workload: times of other targets, clocks or threads do not compare. */
export type Where = { target: string; clock: string; threads: number };

export const useWorkloads = (search: string, target: string | null) =>
  useInfiniteQuery({
    queryKey: ["workloads", search, target],
    initialPageParam: 0,
    queryFn: ({ pageParam }) =>
      data(
        api.GET("/api/v1/workloads", {
          params: {
            query: { limit: 100, after: pageParam, ...(search && { search }), ...(target && { target }) },
          },
        }),
      ),
    getNextPageParam: (page) => (page.next === null ? undefined : Number(page.next)),
  });

export const useTrials = (key: string, where: Where | undefined) =>
  useQuery({
    // A job may be measuring it; what has not changed is not drawn anew.
    refetchInterval: 10_000,
    queryKey: ["workload", key, "trials", where],
    enabled: where !== undefined,
    queryFn: () =>
      data(api.GET("/api/v1/workloads/{key}/trials", { params: { path: { key }, query: where! } })),
  });

export const useBaselines = (key: string, where: Where | undefined) =>
  useQuery({
    queryKey: ["workload", key, "baselines", where],
    enabled: where !== undefined,
    queryFn: () =>
      data(api.GET("/api/v1/workloads/{key}/baselines", { params: { path: { key }, query: where! } })),
  });

/** Compiling takes seconds and tells the same again. */
export type Explained = "best" | "analysis" | number;
export const useExplanation = (key: string, where: Where, which: Explained) =>
  useQuery({
    queryKey: ["workload", key, "explanation", where, which],
    staleTime: Infinity,
    queryFn: () =>
      data(
        api.GET("/api/v1/workloads/{key}/explanation", {
          params: {
            path: { key },
            query: { ...where, ...(typeof which === "number" ? { record: which } : { config: which }) },
          },
        }),
      ),
  });

/** Learned from all trials; the server remembers it. */
export const useInsight = (key: string, where: Where) =>
  useQuery({
    queryKey: ["workload", key, "insight", where],
    staleTime: 30_000,
    queryFn: () =>
      data(api.GET("/api/v1/workloads/{key}/insight", { params: { path: { key }, query: where } })),
  });

export const useRecordRate = () =>
  useQuery({
    queryKey: ["record rate"],
    queryFn: () => data(api.GET("/api/v1/records/rate")),
    refetchInterval: OVERVIEW_MS,
  });

export const useRecentBests = () =>
  useQuery({
    queryKey: ["recent bests"],
    queryFn: () => data(api.GET("/api/v1/configs/recent", { params: { query: { limit: 5 } } })),
    refetchInterval: OVERVIEW_MS,
  });

export const useActivity = (board: string) =>
  useQuery({
    queryKey: ["boards", board, "activity"],
    staleTime: 5000,
    refetchInterval: 10_000,
    queryFn: () =>
      data(api.GET("/api/v1/boards/{board_id}/activity", { params: { path: { board_id: board } } })),
  });

export const useDays = (board: string) =>
  useQuery({
    queryKey: ["boards", board, "days"],
    staleTime: 60_000,
    queryFn: () => data(api.GET("/api/v1/boards/{board_id}/days", { params: { path: { board_id: board } } })),
  });
