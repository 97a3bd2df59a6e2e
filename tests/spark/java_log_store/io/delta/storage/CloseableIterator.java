package io.delta.storage;

import java.io.Closeable;
import java.util.Iterator;

public interface CloseableIterator extends Iterator, Closeable {}
