/** Which trial of a workload is the best: the same in every figure and chart of its page, and as the server ranks. */
import type { components } from "../api/schema";

export type Trial = components["schemas"]["TrialPoint"];

/** Nothing from elsewhere comes before what this lab measured, and nothing disturbed before what was quiet. */
export function byRank(one: Trial, other: Trial): number {
  return (
    Number(one.imported) - Number(other.imported) ||
    Number(one.disturbed) - Number(other.disturbed) ||
    one.ranking_s! - other.ranking_s! ||
    one.record - other.record
  );
}

export function bestOf(trials: Trial[]): Trial {
  return trials.reduce((one, other) => (byRank(other, one) < 0 ? other : one));
}

/** Those that may be held against the best: measured here and quietly, if it was. */
export function likeBest(trials: Trial[]): Trial[] {
  const best = bestOf(trials);
  return trials.filter((trial) => trial.imported === best.imported && trial.disturbed === best.disturbed);
}
