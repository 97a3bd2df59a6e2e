package io.delta.exceptions;

import delta.PythonError;

public class ProtocolChangedException extends DeltaConcurrentModificationException {
  public ProtocolChangedException(PythonError told) { super(told); }
}
