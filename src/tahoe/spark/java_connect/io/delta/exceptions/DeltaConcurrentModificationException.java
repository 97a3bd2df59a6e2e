package io.delta.exceptions;

import delta.PythonError;
import delta.connect.SparkError;

/** A conflict. The reference's Connect client knows conflicts by the names of this package's classes. */
public class DeltaConcurrentModificationException extends SparkError {
  public DeltaConcurrentModificationException(PythonError told) { super(told); }
}
