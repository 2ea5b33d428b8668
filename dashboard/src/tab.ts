/** What the browser's tab says of a job: how far it is, in its title and by its icon's colour. */
import { useEffect } from "react";

import type { Job } from "./api/client";
import { isOver } from "./api/live";
import { percent } from "./format";
import { nameOf, shareDone } from "./parts/job-names";

const COLOURS: Record<string, string> = {
  done: "#2f9e44",
  incomplete: "#f08c00",
  failed: "#e03131",
  cancelled: "#f08c00",
  interrupted: "#f08c00",
};

export function titleOf(job: Job): string {
  const done = isOver(job) ? job.state : job.state === "running" ? percent(shareDone(job)) : job.state;
  return `${done} · job ${nameOf(job)}`;
}

/** Title and icon are the job's while its page is shown. */
export function useTab(job: Job | undefined) {
  useTitle(job && titleOf(job), job && (COLOURS[job.state] ?? "#0c8599"));
}

/** A page that stays open says how many jobs run and wait. */
export function useFleetTab(page: string, jobs: { running: number; queued: number } | undefined) {
  const said = jobs && [
    jobs.running ? `${jobs.running} running` : "none running",
    ...(jobs.queued ? [`${jobs.queued} queued`] : []),
  ];
  useTitle([...(said ? [said.join(", ")] : []), page].join(" · "), jobs?.running ? "#0c8599" : "#868e96");
}

/** The tab's title, before the name of it all, and its icon as a disc of this colour, while a page is shown. */
export function useTitle(title: string | undefined, colour = "#868e96") {
  useEffect(() => {
    const icon = document.querySelector<HTMLLinkElement>('link[rel="icon"]');
    if (!title || !icon) return;
    document.title = `${title} · Tilefleet`;
    const drawn = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><circle cx="16" cy="16" r="14" fill="${colour}"/></svg>`;
    icon.href = `data:image/svg+xml,${encodeURIComponent(drawn)}`;
    return () => {
      document.title = "Tilefleet";
      icon.href = "/icon.svg";
    };
  }, [title, colour]);
}
