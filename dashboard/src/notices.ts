/** The browser tells when a job ends, to those who asked for it: also while another tab is in front. */
import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { useLocalStorage } from "@mantine/hooks";

import type { Job } from "./api/client";
import { ApiError, api, data } from "./api/client";
import { ALIVE, isOver } from "./api/live";
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

/** Tells of each job that had not ended when this was asked last and has since. */
export function useJobNotices() {
  const { wanted } = useNoticesWanted();
  const alive = useRef(new Set<number>());
  const jobs = useQuery({
    queryKey: ["jobs", "notices"],
    enabled: wanted,
    refetchInterval: LOOK_MS,
    refetchIntervalInBackground: true,
    // The oldest first: of more than one answer holds, it is the youngest that wait to be in it.
    queryFn: () =>
      data(api.GET("/api/v1/jobs", { params: { query: { state: ALIVE, order: "up", limit: 500 } } })),
  });
  useEffect(() => {
    const there = new Set(wanted ? jobs.data?.items.map(({ id }) => id) : []);
    const gone = [...alive.current].filter((id) => !there.has(id));
    alive.current = there;
    if (!wanted) return;
    for (const id of gone) {
      data(api.GET("/api/v1/jobs/{job_id}", { params: { path: { job_id: id } } })).then(
        tell,
        (error: unknown) => {
          // Nobody answered: it is asked for again with the next list. One that was deleted is not.
          if (error instanceof ApiError && error.status === 0) alive.current.add(id);
        },
      );
    }
  }, [jobs.data, wanted]);
}

function tell(job: Job) {
  if (!isOver(job)) return;
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
