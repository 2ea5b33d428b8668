/** What pages call a job, how far it is, and what it gained. */
import type { Job } from "../api/client";

/** Its number with what somebody called it, else with the model's name, or what is tuned without one. */
export function nameOf(job: Job): string {
  return `${job.id} ${job.name || (job.model_name ?? "one workload")}`;
}

/** How much of its budget a job has used, from 0 to 1. */
export function shareDone(job: Job): number {
  const { trials, seconds } = job.budget;
  return Math.min(1, Math.max(trials ? job.trials / trials : 0, seconds ? job.elapsed_s / seconds : 0));
}

/** Where a job waits, and as which. */
export function waitsAs(job: Job, waiting: NonNullable<Job["waiting"]>): string {
  return job.state === "queued"
    ? `Position ${waiting.position} of the queue`
    : `Waits for a board, place ${waiting.position}`;
}

/** How many times as fast as before tuning. */
export function gainOf({ estimated_ms, recommended_ms }: Job): string {
  return estimated_ms && recommended_ms ? `${(recommended_ms / estimated_ms).toFixed(2)}\u00a0x` : "–";
}
