package delta;

import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayDeque;
import java.util.List;
import py4j.ClientServerConnection;
import py4j.GatewayServer;
import py4j.PythonClient;

/**
 * The connections over which threads of the JVM ask Python. Each has a thread of Python's at its other end. py4j gives a connection to each
 * thread that asks, for good; here a thread has one for as long as it asks, and the next thread gets the same. So there are as many as
 * threads that have asked at the same time, and of those that nobody uses a few are kept.
 */
public class Connections implements InvocationHandler {
  /** As many as that ask at the same time in an ordinary program. One more costs a thread and a descriptor at either end. */
  private static final int IDLE_MAX = 8;

  private final Python python;
  private final GatewayServer server;
  private final ArrayDeque idle = new ArrayDeque();
  /** py4j's end of the idle connections; it makes a new one when Python listens at another port. */
  private PythonClient owner;

  private Connections(Python python, GatewayServer server) {
    this.python = python;
    this.server = server;
  }

  static Python shared(Python python, GatewayServer server) {
    return (Python) Proxy.newProxyInstance(
        Connections.class.getClassLoader(), new Class[] {Python.class}, new Connections(python, server));
  }

  public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
    if (!(server.getCallbackClient() instanceof PythonClient)) return ask(method, arguments);  // one that shares connections itself
    PythonClient client = (PythonClient) server.getCallbackClient();
    if (isOpen(client.getPerThreadConnection())) return ask(method, arguments);
    ClientServerConnection pythons = ofPythonsThread();
    if (pythons != null) {
      client.setPerThreadConnection(pythons);
      return ask(method, arguments);
    }
    client.setPerThreadConnection(taken(client));  // where there is none, py4j opens one
    try {
      return ask(method, arguments);
    } finally {
      ClientServerConnection used = client.getPerThreadConnection();
      client.setPerThreadConnection(null);
      giveBack(client, used);
    }
  }

  private Object ask(Method method, Object[] arguments) throws Throwable {
    try {
      return method.invoke(python, arguments);
    } catch (InvocationTargetException error) {
      throw error.getCause();
    }
  }

  private synchronized ClientServerConnection taken(PythonClient client) {
    if (client != owner) {
      while (!idle.isEmpty()) close(owner, (ClientServerConnection) idle.pop());
      owner = client;
    }
    while (!idle.isEmpty()) {
      ClientServerConnection connection = (ClientServerConnection) idle.pop();
      if (isOpen(connection)) return connection;
    }
    return null;
  }

  private synchronized void giveBack(PythonClient client, ClientServerConnection connection) {
    if (connection == null) return;
    if (isOpen(connection) && client == owner && idle.size() < IDLE_MAX) idle.push(connection);
    else close(client, connection);
  }

  private static void close(PythonClient client, ClientServerConnection connection) {
    client.connectionStopped(connection);
    if (isOpen(connection)) connection.shutdown();
  }

  private static boolean isOpen(ClientServerConnection connection) { return connection != null && connection.getSocket() != null; }

  /**
   * The connection by which a thread of Python's has called this thread, and over which it waits for an answer; null for a thread of
   * Spark's own. py4j does not know it if it is older than the port at which Python listens. What is asked over it runs in the very thread
   * that waits, which is where Python looks for signals.
   */
  private ClientServerConnection ofPythonsThread() {
    try {
      List all = (List) field(GatewayServer.class, "connections").get(server);
      Field thread = field(ClientServerConnection.class, "jvmThread");
      synchronized (all) {
        for (int i = 0; i < all.size(); i++) {
          Object connection = all.get(i);
          if (connection instanceof ClientServerConnection && thread.get(connection) == Thread.currentThread()) {
            return isOpen((ClientServerConnection) connection) ? (ClientServerConnection) connection : null;
          }
        }
      }
    } catch (ReflectiveOperationException error) {  // a py4j that keeps them elsewhere: any connection will do
      return null;
    }
    return null;
  }

  private static Field field(Class holder, String name) throws ReflectiveOperationException {
    Field field = holder.getDeclaredField(name);
    field.setAccessible(true);
    return field;
  }
}
