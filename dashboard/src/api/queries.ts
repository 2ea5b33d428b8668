/** What pages ask for, and how often. */
import { useQuery } from "@tanstack/react-query";

import { api, data } from "./client";

const OVERVIEW_MS = 2000;

export const useJobs = () =>
  useQuery({
    queryKey: ["jobs"],
    queryFn: () => data(api.GET("/api/v1/jobs", { params: { query: { limit: 50 } } })),
    refetchInterval: OVERVIEW_MS,
  });

export const useBoards = () =>
  useQuery({
    queryKey: ["boards"],
    queryFn: () => data(api.GET("/api/v1/boards")),
    refetchInterval: OVERVIEW_MS,
  });

export const useTargets = () =>
  useQuery({ queryKey: ["targets"], queryFn: () => data(api.GET("/api/v1/targets")) });

export const useJob = (id: number) =>
  useQuery({
    queryKey: ["job", id],
    queryFn: () => data(api.GET("/api/v1/jobs/{job_id}", { params: { path: { job_id: id } } })),
  });

export const useTasks = (id: number) =>
  useQuery({
    queryKey: ["job", id, "tasks"],
    queryFn: () => data(api.GET("/api/v1/jobs/{job_id}/tasks", { params: { path: { job_id: id } } })),
  });

export const useVersion = () =>
  useQuery({ queryKey: ["version"], queryFn: () => data(api.GET("/version")), refetchInterval: 5000 });

export const useProgress = (id: number) =>
  useQuery({
    queryKey: ["job", id, "progress"],
    queryFn: () => data(api.GET("/api/v1/jobs/{job_id}/progress", { params: { path: { job_id: id } } })),
  });

export const useWorkload = (key: string) =>
  useQuery({
    queryKey: ["workload", key],
    queryFn: () => data(api.GET("/api/v1/workloads/{key}", { params: { path: { key } } })),
  });

/** Which measurements of a workload: times of other targets, clocks or threads do not compare. */
export type Where = { target: string; clock: string; threads: number };

export const useTrials = (key: string, where: Where | undefined) =>
  useQuery({
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
export const useExplanation = (key: string, where: Where, config: "best" | "analysis") =>
  useQuery({
    queryKey: ["workload", key, "explanation", where, config],
    staleTime: Infinity,
    queryFn: () =>
      data(
        api.GET("/api/v1/workloads/{key}/explanation", {
          params: { path: { key }, query: { ...where, config } },
        }),
      ),
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
