package io.delta.exceptions;

import delta.PythonError;

public class ConcurrentDeleteReadException extends DeltaConcurrentModificationException {
  public ConcurrentDeleteReadException(PythonError told) { super(told); }
}
