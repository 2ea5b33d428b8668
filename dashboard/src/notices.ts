/** The browser tells when a job ends, to those who asked for it: also while another tab is in front. */
import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { useLocalStorage } from "@mantine/hooks";

import { api, data } from "./api/client";
import { isOver } from "./api/live";
import { measured, milliseconds } from "./format";
import { nameOf } from "./parts/job-names";

const LOOK_MS = 5000;

/** Whether they are wanted, as this browser remembers it; asks the browser's leave when they are first. */
export function useNoticesWanted() {
  const [wanted, setWanted] = useLocalStorage({ key: "tilefleet-notices", defaultValue: false });
  const possible = "Notification" in window;
  const ask = async (on: boolean) => {
    const leave = on ? await Notification.requestPermission() : "granted";
    setWanted(on && leave === "granted");
    return leave;
  };
  return { possible, wanted: possible && wanted && Notification.permission === "granted", ask };
}

/** Tells of each job that was running when this was asked last and has ended since. */
export function useJobNotices() {
  const { wanted } = useNoticesWanted();
  const running = useRef<Set<number> | null>(null);
  const jobs = useQuery({
    queryKey: ["jobs", "notices"],
    enabled: wanted,
    refetchInterval: LOOK_MS,
    refetchIntervalInBackground: true,
    queryFn: () => data(api.GET("/api/v1/jobs", { params: { query: { limit: 100 } } })),
  });
  useEffect(() => {
    if (!wanted) running.current = null;
    if (!wanted || !jobs.data) return;
    for (const job of jobs.data.items) {
      if (!isOver(job) || !running.current?.has(job.id)) continue;
      const took = job.built?.measured_ms ? `${measured(job)} built and measured` : "";
      const body = [took || `${milliseconds(job.estimated_ms)} estimated`, job.message]
        .filter(Boolean)
        .join("; ");
      // The same tag: a second tab of this browser replaces it and does not add to it.
      const notice = new Notification(`Job ${nameOf(job)} is ${job.state}`, { body, tag: `job-${job.id}` });
      notice.onclick = () => {
        window.focus();
        window.location.assign(`/jobs/${job.id}`);
      };
    }
    running.current = new Set(jobs.data.items.filter((job) => !isOver(job)).map((job) => job.id));
  }, [jobs.data, wanted]);
}
