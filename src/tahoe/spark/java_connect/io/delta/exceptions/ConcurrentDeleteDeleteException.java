package io.delta.exceptions;

import delta.PythonError;

public class ConcurrentDeleteDeleteException extends DeltaConcurrentModificationException {
  public ConcurrentDeleteDeleteException(PythonError told) { super(told); }
}
