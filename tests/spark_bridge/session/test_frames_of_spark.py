"""Frames of Spark as streams: bounded frames are read, streaming ones are refused."""

import pytest

import dgs
from dgs.frames.tables import FrameError

READING = dgs.kind("reading", key=str)


class Sums(dgs.Program):
    kinds = (READING,)
    depends = dgs.Dependence((READING, READING, dgs.SAME_KEY))

    def init(self):
        return {}

    def update(self, state, event, emit):
        total = state.get(event.tag.key, 0) + event.payload
        emit([event.tag.key, total])
        return {**state, event.tag.key: total}


def test_a_bounded_frame_of_spark_is_a_stream(spark):
    frame = spark.createDataFrame([(1, "a", 5), (2, "b", 7), (3, "a", 9)], "at bigint, who string, n bigint")
    readings = dgs.stream(frame, key="who", ts="at", payload="n", sort=True)
    assert dgs.run(Sums, streams={"readings": readings}).outputs == [["a", 5], ["b", 7], ["a", 14]]


def test_a_streaming_frame_of_spark_is_refused(spark):
    with pytest.raises(FrameError, match=r"source: \{spark: "):
        dgs.stream(spark.readStream.format("rate").load(), ts="timestamp")
