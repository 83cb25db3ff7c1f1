"""The Spark session of this process: finding, checking, starting and stopping it.

- `session`: the session of this process, shared by its users.
- `embedded`: Spark in a JVM of our own; `java`: the Java and the Spark it starts from; `class_archive`: Spark's
  classes as Java keeps them for later starts.
- `reachability`, `settings_advice`: checks before the start and advice after it.
- `java_errors`: a Java error is reported once, as one sentence.
"""
