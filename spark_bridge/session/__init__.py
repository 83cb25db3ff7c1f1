"""One Spark session: found, started, advised on, stopped.

- `session`: the session of this process, and who uses it.
- `embedded`: a JVM of our own; `java`, `spark_home`: what it is started with.
- `reachability`, `connectors`, `settings_advice`: what is checked before and said afterwards.
- `java_errors`, `logging_noise`: errors of Java in one sentence, once.
"""
