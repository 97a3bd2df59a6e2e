package io.delta.exceptions;

import delta.PythonError;

public class MetadataChangedException extends DeltaConcurrentModificationException {
  public MetadataChangedException(PythonError told) { super(told); }
}
