"""The builder's tasks on an Apache Beam runner (extra `beam`).

A Flink, Spark or Dataflow cluster takes the place of local processes. All its
workers must see corpus and dataset folder under the same path. The dataset has
the same bytes as one built locally.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import apache_beam
from apache_beam.metrics import Metrics
from apache_beam.options.pipeline_options import PipelineOptions

from electra_tf.processes import pool


class BeamPool(contextlib.nullcontext):
    """Runs lists of tasks as Beam pipelines, with `ProcessPool`'s interface.

    `options` are the command line of the runner, for example
    `["--runner=FlinkRunner", "--flink_master=host:8081"]`.
    """

    def __init__(
        self, start: Callable[[], pool.Handler], options: Sequence[str]
    ):
        super().__init__(self)
        self._start = start
        self._options = list(options)

    def run(
        self, tasks: Sequence[Any], on_report: pool.Report
    ) -> Iterator[tuple[Any, None]]:
        """Reports the sums of all tasks, then yields each task with None."""
        on_report(0, 0)
        pipeline = apache_beam.Pipeline(options=PipelineOptions(self._options))
        (
            pipeline
            | apache_beam.Create(list(tasks))
            | apache_beam.Reshuffle()
            | apache_beam.ParDo(_DoTask(self._start))
        )
        try:
            result = pipeline.run()
            result.wait_until_finish()
        except Exception as error:
            raise pool.WorkerError(
                f"The Beam pipeline failed: {error}. Continue with --resume."
            ) from error
        counters = result.metrics().query()["counters"]
        sums = {each.key.metric.name: each.result for each in counters}
        on_report(sums.get("work", 0), sums.get("count", 0))
        yield from ((task, None) for task in tasks)


class _DoTask(apache_beam.DoFn):
    def __init__(self, start: Callable[[], pool.Handler]):
        self._start = start

    def setup(self) -> None:
        self._handler = self._start()

    def process(self, task: Any) -> None:
        self._handler(task, _count)


def _count(work: float, count: int) -> None:
    Metrics.counter("electra_tf", "work").inc(int(work))
    Metrics.counter("electra_tf", "count").inc(count)
