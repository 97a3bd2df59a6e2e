package io.delta.exceptions;

import delta.PythonError;

public class ConcurrentTransactionException extends DeltaConcurrentModificationException {
  public ConcurrentTransactionException(PythonError told) { super(told); }
}
