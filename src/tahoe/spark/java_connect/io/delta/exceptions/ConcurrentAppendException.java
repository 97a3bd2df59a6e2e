package io.delta.exceptions;

import delta.PythonError;

public class ConcurrentAppendException extends DeltaConcurrentModificationException {
  public ConcurrentAppendException(PythonError told) { super(told); }
}
