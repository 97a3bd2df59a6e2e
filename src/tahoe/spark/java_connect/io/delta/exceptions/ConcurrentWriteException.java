package io.delta.exceptions;

import delta.PythonError;

public class ConcurrentWriteException extends DeltaConcurrentModificationException {
  public ConcurrentWriteException(PythonError told) { super(told); }
}
