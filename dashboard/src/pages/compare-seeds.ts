/** Jobs that differ by their seed alone: together they say how much of a curve is chance. */
import type { Curve } from "./compare-curves";

/** From so many jobs on, quartiles say something. */
const ENOUGH = 3;

export type Seeds = {
  name: string;
  jobs: Curve[];
  /** After each trial the lower quartile, the median and the upper quartile, in milliseconds. */
  band: { trial: number; low: number; middle: number; high: number }[];
};

/** Groups of jobs of one search by several seeds, and the jobs that are in none. */
export function bySeeds(jobs: Curve[]): { groups: Seeds[]; others: Curve[] } {
  const alike = new Map<string, Curve[]>();
  for (const each of jobs) {
    const { model, workload, shapes, target, threads, strategy, numerics, budget, tags } = each.job;
    const key = JSON.stringify([model, workload, shapes, target, threads, strategy, numerics, budget, tags]);
    alike.set(key, [...(alike.get(key) ?? []), each]);
  }
  const groups = [...alike.values()]
    .filter((group) => new Set(group.map(({ job }) => job.seed)).size >= ENOUGH)
    .map((group) => ({
      name: `${group[0]!.job.strategy}, ${group.length} jobs by different seeds`,
      jobs: group,
      band: bandOf(group),
    }))
    .filter(({ band }) => band.length > 0);
  const taken = new Set(groups.flatMap((group) => group.jobs));
  return { groups, others: jobs.filter((each) => !taken.has(each)) };
}

/** From the first trial at which all of them have an estimate to the last of any; one that ended stays where it was. */
function bandOf(group: Curve[]): Seeds["band"] {
  const known = group.map(({ points }) =>
    points.flatMap(({ trial, estimated_ms }) => (estimated_ms === null ? [] : [{ trial, ms: estimated_ms }])),
  );
  if (known.some((points) => points.length === 0)) return [];
  const first = Math.max(...known.map((points) => points[0]!.trial));
  const trials = [...new Set(known.flat().map(({ trial }) => trial))].filter((trial) => trial >= first);
  return trials
    .sort((one, other) => one - other)
    .map((trial) => {
      const values = known.map((points) => points.findLast((point) => point.trial <= trial)!.ms);
      values.sort((one, other) => one - other);
      return {
        trial,
        low: quantile(values, 0.25),
        middle: quantile(values, 0.5),
        high: quantile(values, 0.75),
      };
    });
}

function quantile(sorted: number[], share: number): number {
  const place = share * (sorted.length - 1);
  const [below, above] = [sorted[Math.floor(place)]!, sorted[Math.ceil(place)]!];
  return below + (above - below) * (place - Math.floor(place));
}
